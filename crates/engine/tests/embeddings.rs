//! Models that make vectors of texts: every golden under goldens/embed/ against transformers, and the same
//! bits alone, in company, on any number of threads and every tier.
mod rig;

use rig::vectors::{CONTEXT, goldens, head, texts, vectors, with_model};
use rig::{EIGHT, LIMITS, NATIVE, assert_bits, distance};
use rinfer_engine::backend::{Limits, Quant};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::size;
use rinfer_engine::spec::Pool;
use rinfer_kernels::{Kernels, TIERS};

/// Of vectors whose elements are about one.
const TOLERANCE: f32 = 1e-4;

#[test]
fn f32_equals_transformers() {
    let kinds = [
        ("mean", head(Pool::Mean, false)),
        ("cls", head(Pool::Cls, false)),
        ("last", head(Pool::Last, false)),
        ("mean_normed", head(Pool::Mean, true)),
    ];
    for golden in goldens() {
        for (kind, head) in &kinds {
            with_model(&golden, head, |spec, weights| {
                let cpu = Cpu::new(2, Kernels::best());
                let mut executor = cpu
                    .executor(spec, weights, &Limits { context: CONTEXT, ..LIMITS })
                    .expect("a model");
                let texts = texts(&golden);
                let found = vectors(&mut executor, &[&texts[0], &texts[1]]);
                let far = distance(&found, &golden.recorded[*kind].f32());
                println!("{:20} {kind:12} {far:.1e}", golden.name);
                assert!(far < TOLERANCE, "{}, {kind}: {far}", golden.name);
            });
        }
    }
}

/// A text's vector is the same bits alone and among others, wherever it is computed.
#[test]
fn company_threads_and_tiers() {
    for golden in goldens() {
        for limits in [LIMITS, NATIVE, EIGHT] {
            let limits = &Limits { context: CONTEXT, ..limits };
            with_model(&golden, &head(Pool::Mean, true), |spec, weights| {
                let texts = texts(&golden);
                let (long, short) = (&texts[0][..], &texts[1][..]);
                let on = |threads, tier| Cpu::new(threads, tier).executor(spec, weights, limits);
                let mut alone = on(1, TIERS.last().expect("a tier")).expect("a model");
                let want: Vec<f32> = [long, short, &long[..1]]
                    .iter()
                    .flat_map(|text| vectors(&mut alone, &[text]))
                    .collect();
                for tier in TIERS.iter().filter(|tier| (tier.usable)()) {
                    for threads in 1..=3 {
                        let mut executor = on(threads, tier).expect("a model");
                        let found = vectors(&mut executor, &[long, short, &long[..1]]);
                        let what = format!("{}, {}, {threads} threads", golden.name, tier.name);
                        assert_bits(&found, &want, spec.width(), &what);
                        let turned = vectors(&mut executor, &[short, &long[..1], long]);
                        let (first, rest) = turned.split_at(2 * spec.width());
                        assert_bits(&[rest, first].concat(), &want, spec.width(), &what);
                    }
                }
            });
        }
    }
}

#[test]
fn memory_is_the_sum() {
    let (plain, quants) = (head(Pool::Last, true), [Quant::F32, Quant::Native, Quant::Int8Int8]);
    for golden in goldens() {
        for quant in quants {
            with_model(&golden, &plain, |spec, weights| {
                let limits = Limits { quant, context: CONTEXT, ..LIMITS };
                let planned = size::Memory::of(spec, weights, &limits, 2);
                let executor = Cpu::new(2, Kernels::best()).executor(spec, weights, &limits);
                assert_eq!(planned, executor.expect("a model").memory(), "{}", golden.name);
            });
        }
    }
}
