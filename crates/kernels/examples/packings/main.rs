//! How 4-bit weights may lie, measured: `cargo run --release -p rinfer-kernels --example packings -- WHAT [THREADS]`.
//!
//! `hot`: products of a matrix in the first cache; `cold`: of one that no cache holds; `decode` and
//! `prefill`: all matrices of a small model for one row and for 512; `streams`: what the order of one
//! packing's bytes does; `pack`: making them of a file's blocks. What is compared is run in turn,
//! round after round, and the medians are printed. Every kernel is checked first.
#[cfg(target_arch = "x86_64")]
mod kernels;
#[cfg(target_arch = "x86_64")]
mod measure;
#[cfg(target_arch = "x86_64")]
mod packing;

#[cfg(target_arch = "x86_64")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let threads = args.get(1).map_or(Some(1), |n| n.parse().ok());
    let Some((what, threads)) = args.first().zip(threads) else {
        return println!("packings hot|cold|decode|prefill|streams|pack [THREADS]");
    };
    measure::run(what, threads);
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("these kernels are x86-64's");
}
