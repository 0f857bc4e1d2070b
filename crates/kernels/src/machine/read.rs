//! How fast the threads read memory together.
use super::wake;
use crate::Team;
use crate::generic::lanes::prefetch;
use crate::mat::Lent;
use crate::room::Room;
use std::time::Instant;

const TASK: usize = 1 << 20;
/// Tasks that are timed together: about a millisecond, which a busy machine often grants whole.
const SEGMENT: usize = 32 * TASK;
const LINE: usize = 64;
/// Passes over the buffer in each pattern.
const PASSES: usize = 4;

/// Streams that a thread reads side by side, and bytes it asks memory for ahead of each: the CPU's
/// own prefetch ends at a page. Which is best differs between machines.
const PATTERNS: [fn(&[u8]); 3] = [read::<1, 4096>, read::<4, 0>, read::<8, 4096>];

/// Bytes per second that the team reads from memory, in the best of several patterns.
///
/// It reads `bytes` of its own (rounded up to whole segments of 32 MiB), which must be much more
/// than the last cache holds: 256 MiB for most machines.
pub fn read_bandwidth(team: &Team, bytes: usize) -> f64 {
    let bytes = bytes.div_ceil(SEGMENT).max(1) * SEGMENT;
    let mut buffer = Room::new(bytes).take(bytes);
    let tasks = buffer.bytes().len() / TASK;
    let parts = Lent::new(buffer.bytes_mut());
    team.run(|worker| {
        worker.phase(tasks, |i| {
            // Memory that was never written may be one page of zeros, mapped many times.
            // SAFETY: a phase hands out each part's number once.
            unsafe { parts.part(i * TASK, TASK) }.fill(1);
        });
    });
    PATTERNS.iter().map(|read| rate(team, buffer.bytes(), read)).fold(0.0, f64::max)
}

/// Bytes per second of `read`: what a tenth of the segments reach. The fastest may have been in a
/// cache.
fn rate(team: &Team, bytes: &[u8], read: &fn(&[u8])) -> f64 {
    let mut seconds = Vec::new();
    for segment in (0..PASSES).flat_map(|_| bytes.chunks_exact(SEGMENT)) {
        wake(team);
        let start = Instant::now();
        team.run(|worker| worker.phase(SEGMENT / TASK, |i| read(&segment[i * TASK..][..TASK])));
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    SEGMENT as f64 / seconds[seconds.len() / 10]
}

/// Reads `part` with the widest loads.
fn read<const STREAMS: usize, const AHEAD: usize>(part: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has it.
            return unsafe { avx512::<STREAMS, AHEAD>(part) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has it.
            return unsafe { avx2::<STREAMS, AHEAD>(part) };
        }
    }
    streams::<u128, STREAMS, AHEAD>(part);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512<const STREAMS: usize, const AHEAD: usize>(part: &[u8]) {
    streams::<std::arch::x86_64::__m512i, STREAMS, AHEAD>(part);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<const STREAMS: usize, const AHEAD: usize>(part: &[u8]) {
    streams::<std::arch::x86_64::__m256i, STREAMS, AHEAD>(part);
}

/// Reads `part`, which is aligned to lines, by loads of a `V`: plain bits.
#[inline(always)]
fn streams<V: Copy, const STREAMS: usize, const AHEAD: usize>(part: &[u8]) {
    const { assert!(LINE.is_multiple_of(align_of::<V>())) };
    assert!(part.as_ptr().addr().is_multiple_of(LINE));
    let lines = part.as_chunks::<LINE>().0;
    let stream = lines.len() / STREAMS;
    for i in 0..stream {
        for s in 0..STREAMS {
            let line = lines[s * stream + i].as_ptr();
            prefetch(line.wrapping_add(AHEAD));
            for at in (0..LINE).step_by(size_of::<V>()) {
                // SAFETY: within the line and aligned as it is; a `V` is plain bits.
                unsafe { line.add(at).cast::<V>().read_volatile() };
            }
        }
    }
}
