//! Times empty runs of the team. `cargo run -p rinfer-kernels --example team [threads]`
use rinfer_kernels::Team;
use std::time::Instant;

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |n| n.parse().expect("a number of threads"));
    let team = Team::new(threads);
    for phases in [1, 2, 4] {
        let mut nanos: Vec<u128> = (0..2000)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..10 {
                    team.run(|worker| (0..phases).for_each(|_| worker.phase(8, |_| ())));
                }
                start.elapsed().as_nanos() / 10
            })
            .collect();
        nanos.sort_unstable();
        let [median, worst] = [nanos[nanos.len() / 2], nanos[nanos.len() * 99 / 100]];
        println!("{threads} threads, {phases} phases of 8 tasks: {median} ns, 99%: {worst} ns");
    }
}
