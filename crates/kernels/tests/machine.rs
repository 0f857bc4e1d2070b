//! The machine's measured limits are figures, of a size that any machine has.
use rinfer_kernels::machine::{dot_peak, fma_peak, read_bandwidth};
use rinfer_kernels::{Kernels, Team};

#[test]
fn limits_are_plausible() {
    for threads in [1, 2] {
        let team = Team::new(threads);
        let read = read_bandwidth(&team, 64 << 20) / 1e9;
        let [dot, fma] = [dot_peak(&team), fma_peak(&team)].map(|peak| peak.map(|rate| rate / 1e9));
        println!("{threads} threads: {read:.1} GB/s, dots {dot:.0?} GOP/s, f32 {fma:.0?} GFLOP/s");
        // An emulator does some hundredths of these; a loop that the compiler removed, thousands.
        assert!((0.01..5e3).contains(&read), "reads {read} GB/s");
        for peak in [dot, fma].into_iter().flatten() {
            assert!((0.01..5e4).contains(&peak), "{peak} G/s");
        }
        // Whoever has a vector tier has both instructions.
        assert_eq!(dot.is_some() && fma.is_some(), Kernels::best().name != "scalar");
    }
}
