//! Every golden with each of its matrices stored in an order of its own, as act-order stores them: the
//! same logits, the planned memory, and the bits of one thread and one row.
mod rig;

use rig::{LIMITS, Rig, assert_bits, distance, goldens};
use rinfer_engine::backend::{Limits, Quant};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::size::Memory;
use rinfer_engine::weights::Checkpoint;
use rinfer_formats::{DType, Tensor, Weights};
use rinfer_kernels::{Kernels, TIERS};
use std::sync::Arc;

/// A model whose matrices' columns are stored in orders.
struct Shuffled<'a>(&'a Checkpoint<'a>);

impl Shuffled<'_> {
    /// By name: no two matrices have the same.
    fn of(name: &str, i: usize, cols: usize) -> Arc<[u32]> {
        let seed =
            name.bytes().fold(i as u64, |seed, b| seed.wrapping_mul(31).wrapping_add(b.into()));
        let mut order: Vec<u32> = (0..cols as u32).collect();
        order.sort_by_key(|k| {
            (u64::from(*k) + 1).wrapping_mul(seed | 1).wrapping_mul(0x9E37_79B9) >> 7
        });
        order.into()
    }
    fn shuffled<'t>(tensor: &Tensor<'_>, order: &[u32]) -> Tensor<'t> {
        let each = tensor.dtype.format().bytes;
        let rows = tensor.bytes.chunks(order.len() * each);
        let one = |row: &[u8], k: &u32| row[*k as usize * each..][..each].to_vec();
        let bytes: Vec<u8> = rows.flat_map(|row| order.iter().flat_map(|k| one(row, k))).collect();
        Tensor { dtype: tensor.dtype, shape: tensor.shape.to_vec().into(), bytes: bytes.into() }
    }
    /// Axes and columns of what has an order.
    fn matrix(&self, name: &str, axes: usize) -> Option<(DType, usize)> {
        let (dtype, shape) = self.0.describe(name)?;
        let table = name.contains("embd") || !name.ends_with(".weight");
        (shape.len() == axes && !table).then(|| (dtype, shape[axes - 1]))
    }
}

impl Weights for Shuffled<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.0.get(name)
    }
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        self.0.part(name, i)
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        self.0.describe(name)
    }
    fn order(&self, name: &str) -> Option<(DType, Arc<[u32]>)> {
        let (dtype, cols) = self.matrix(name, 2)?;
        Some((dtype, Shuffled::of(name, 0, cols)))
    }
    fn in_order(&self, name: &str) -> Option<Tensor<'_>> {
        Some(Shuffled::shuffled(&self.get(name)?, &self.order(name)?.1))
    }
    fn part_order(&self, name: &str, i: usize) -> Option<(DType, Arc<[u32]>)> {
        let (dtype, cols) = self.matrix(name, 3)?;
        Some((dtype, Shuffled::of(name, i, cols)))
    }
    fn part_in_order(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        Some(Shuffled::shuffled(&self.part(name, i)?, &self.part_order(name, i)?.1))
    }
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }
}

#[test]
fn every_golden_in_orders() {
    let limits = Limits { quant: Quant::Native, ..LIMITS };
    for golden in goldens() {
        let name = &golden.name;
        let raw = rig::Memory(golden.weights.clone());
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        let model = Checkpoint::open(config, &raw).expect("a model");
        let shuffled = Shuffled(&model);
        let load = |threads, tier| {
            let executor = Cpu::new(threads, tier).executor(&model.spec, &shuffled, &limits);
            Rig {
                executor: executor.unwrap_or_else(|e| panic!("{name}: {e}")),
                vocab: model.spec.vocab,
            }
        };
        let mut rig = load(2, Kernels::best());
        let (ids, logits, ..) = golden.prompt(0);
        let whole = rig.run(&ids, ids.len());
        // Weights of 16 bits are read as they are, and sums go in another order.
        let far = distance(&whole, &logits);
        assert!(far < 2e-3, "{name} differs by {far}");
        assert_bits(&rig.run(&ids, 3), &whole, rig.vocab, name);
        let scalar = TIERS.last().expect("a tier");
        assert_bits(&load(1, scalar).run(&ids, ids.len()), &whole, rig.vocab, name);
        let planned = Memory::of(&model.spec, &shuffled, &limits, 2);
        assert_eq!(planned, rig.executor.memory(), "{name}");
    }
}
