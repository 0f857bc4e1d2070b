//! Every kernel on every tier and layout, beside what the machine can do:
//! `cargo bench -p rinfer-kernels -- [FILTER]`, such as `'one_row::W4K'`, `attention` or `avx2`.
//!
//! The column `fastest` is what the code can do, also while other programs run. What is short is
//! timed several times over: between two samples the threads fall asleep.
mod attention;
mod elements;
mod experts;
mod matmul;
mod recurrent;
mod team;

use rinfer_kernels::layout::{Layout, Packed};
use rinfer_kernels::machine::{dot_peak, fma_peak, read_bandwidth};
use rinfer_kernels::ops::Ctx;
use rinfer_kernels::room::Room;
use rinfer_kernels::{Kernels, Mat, TIERS, Team};
use std::fmt;

fn main() {
    if std::env::args().any(|arg| arg == "--bench") {
        for threads in threads() {
            let team = Team::new(threads);
            let read = read_bandwidth(&team, 256 << 20) / 1e9;
            let [dot, fma] = [dot_peak(&team), fma_peak(&team)].map(|rate| rate.unwrap_or(0.0));
            let [dot, fma] = [dot, fma].map(|rate| rate / 2e9);
            println!(
                "{threads} threads at most: {read:.1} GB/s, {dot:.0} G byte products/s, {fma:.0} G f32 products/s"
            );
        }
    }
    divan::main();
}

/// One thread, and all.
fn threads() -> Vec<usize> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    if all > 1 { vec![1, all] } else { vec![1] }
}

/// Who computes.
#[derive(Clone, Copy)]
struct On {
    kernels: &'static Kernels,
    threads: usize,
}

impl On {
    /// The scalar tier, which is the definition and not fast, only where there is no other.
    fn all() -> Vec<On> {
        let usable = TIERS.iter().copied().filter(|tier| (tier.usable)());
        let best = Kernels::best().name;
        let fast = usable.filter(|tier| tier.name != "scalar" || tier.name == best);
        let on = |kernels| threads().into_iter().map(move |threads| On { kernels, threads });
        fast.flat_map(on).collect()
    }
    fn ctx(&self) -> Ctx {
        Ctx { team: Team::new(self.threads), kernels: self.kernels }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x{}", self.kernels.name, self.threads)
    }
}

/// Numbers of every sign, none far from 1.
fn wave(rows: usize, cols: usize) -> Mat {
    let mut m = Mat::new(rows, cols);
    m.data_mut().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32).sin());
    m
}

/// Weights of all the same byte: a small number wherever it is part of a scale.
fn packed(layout: Layout, rows: usize, cols: usize) -> Packed {
    packed_in(&Room::new(Packed::size(layout, rows, cols)), layout, rows, cols)
}

/// As [`packed`], in memory of `room`.
fn packed_in(room: &Room, layout: Layout, rows: usize, cols: usize) -> Packed {
    let mut data = room.take(Packed::size(layout, rows, cols));
    data.bytes_mut().fill(0x2c);
    Packed::from_bytes(layout, rows, cols, data.into()).expect("the size it needs")
}
