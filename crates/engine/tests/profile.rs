//! What a pass counts is what its spec says that it does, and counting changes no number.
mod rig;

use rig::{LIMITS, Memory, Rig, goldens};
use rinfer_engine::backend::Executor;
use rinfer_engine::batch::Want;
use rinfer_engine::config::{Config, Source};
use rinfer_engine::profile::{Kind, Profile, Work};
use rinfer_engine::spec::{Head, ModelSpec, Op};
use rinfer_engine::weights::{Checkpoint, needs};
use rinfer_kernels::{Kernels, Layout, Packed};
use rinfer_testkit::Golden;

/// All positions in one pass, only the last one's logits; what was counted of it, and them.
fn pass(rig: &mut Rig, ids: &[i32], on: bool) -> (Profile, Vec<f32>) {
    rig.executor.profile(on);
    let slot = rig.open();
    let logits = rig.forward(&[(slot, ids, Want::Last)]);
    rig.close(slot);
    (rig.executor.profile(false).expect("a backend that counts"), logits)
}

fn check(golden: &Golden, rows: usize) {
    let ids: Vec<i32> = (3..).take(rows).collect();
    let weights = Memory(golden.weights.clone());
    let config = Config::new(golden.config.clone(), Source::HuggingFace);
    let checkpoint = Checkpoint::open(config, &weights).expect("a model");
    let mut rig = Rig::load(&checkpoint, &LIMITS, 2, Kernels::best());
    let (none, logits) = pass(&mut rig, &ids, false);
    let (counted, same) = pass(&mut rig, &ids, true);
    assert_eq!((none, &logits), (Profile::default(), &same), "{}", golden.name);

    let sum = |of: &dyn Fn(&str) -> bool, rows: usize| {
        let matrices = needs(&checkpoint.spec).into_iter().filter(|need| of(&need.name));
        let works = matrices.filter(|need| need.packed).map(|need| {
            let [count @ .., n, k] = &need.shape[..] else { panic!("{} is no matrix", need.name) };
            let count: usize = need.uses * count.iter().product::<usize>();
            Work {
                f32: (rows * count * n * k) as u64,
                bytes: (count * Packed::size(Layout::F32, *n, *k)) as u64,
                ..Work::default()
            }
        });
        works.sum::<Work>()
    };
    let tied = matches!(checkpoint.spec.head, Head::Lm { tied: true, .. });
    let output = if tied { "token_embd.weight" } else { "output.weight" };
    let looked_up = |name: &str| name.contains("_embd.weight");
    let router = |name: &str| name.contains(".ffn_gate_inp");
    let expert = |name: &str| name.contains("_exps.");
    let mixed = |name: &str| router(name) || expert(name);
    let expect = |kind: Kind| match kind {
        Kind::Projections => [
            sum(&|name| !looked_up(name) && name != output && !mixed(name), rows),
            // Streams are routed before a layer and after it.
            sum(&|name| name.contains(".altup_router"), rows),
        ]
        .into_iter()
        .sum(),
        Kind::Router => sum(&router, rows),
        Kind::Head => sum(&|name| name == output, 1),
        _ => Work::default(),
    };
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Experts) {
        let found = Work { seconds: 0.0, ..counted[kind] };
        assert_eq!(found, expect(kind), "{}: {}", golden.name, kind.name());
    }
    assert!(counted[Kind::Projections].seconds > 0.0 && counted[Kind::Head].seconds > 0.0);
    experts(&checkpoint.spec, counted[Kind::Experts], rows, &golden.name);
    // Of many rows, activations are part of the products' time.
    let apart = counted[Kind::Glu].seconds > 0.0;
    let of_all_rows = |op: &Op| match op {
        Op::Mlp(_) => true,
        Op::Moe(m) => m.shared.is_some(),
        _ => false,
    };
    // But for what lies between a gate and its activation.
    let never_joined = |op: &Op| match op {
        Op::Mlp(m) => m.sparsity.is_some() || m.adapter.is_some(),
        Op::InputGate(_) => true,
        _ => false,
    };
    let joined = rows > 16 && !checkpoint.spec.ops().any(never_joined);
    let mlps = checkpoint.spec.ops().any(of_all_rows);
    assert_eq!(apart, mlps && !joined, "{}: {rows} rows", golden.name);
}

/// Each row meets as many experts as it chooses; how many of all are met is between that and all.
fn experts(spec: &ModelSpec, found: Work, rows: usize, name: &str) {
    let (mut products, mut least, mut most) = (0, 0, 0);
    for need in needs(spec).iter().filter(|n| n.shape.len() == 3 && n.name.contains("_exps.")) {
        let size = Packed::size(Layout::F32, need.shape[1], need.shape[2]);
        let moe = spec.ops().find_map(|op| if let Op::Moe(m) = op { Some(m) } else { None });
        let top_k = moe.expect("a mixture").top_k;
        products += rows * top_k * need.shape[1] * need.shape[2];
        least += top_k * size;
        most += size * need.shape[0].min(rows * top_k);
    }
    assert_eq!((found.q8, found.f32), (0, products as u64), "{name}");
    assert!((least..=most).contains(&(found.bytes as usize)), "{name}: {} bytes", found.bytes);
}

#[test]
fn what_is_counted() {
    for golden in goldens() {
        check(&golden, 5);
        check(&golden, 20);
    }
}
