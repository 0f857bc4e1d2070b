//! How fast the multipliers are: one instruction on registers, over and over.
use super::wake;
use crate::Team;
use std::time::{Duration, Instant};

/// Turns of a task's loop: about a tenth of a millisecond.
const TURNS: usize = 1 << 15;
/// Tasks to a thread, so that one that comes late to a round costs little.
const TASKS: usize = 4;
const ROUNDS: usize = 100;
/// After which no further round begins, on a CPU that is emulated.
const LONG: Duration = Duration::from_millis(500);
/// Independent sums, which hide the instruction's latency; they and the operands fit in registers.
#[cfg(target_arch = "x86_64")]
const SUMS: usize = 12;
/// As on x86, with twice the registers.
#[cfg(target_arch = "aarch64")]
const SUMS: usize = 24;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SUMS: usize = 1;

/// An instruction to measure.
pub(super) struct Unit {
    usable: fn() -> bool,
    /// Runs it `TURNS·SUMS` times. The CPU must have it.
    run: unsafe fn(),
    /// Products to an instruction.
    lanes: usize,
}

/// Operations per second of the first usable unit on the whole team.
pub(super) fn best(team: &Team, units: &[Unit]) -> Option<f64> {
    let unit = units.iter().find(|unit| (unit.usable)())?;
    let tasks = TASKS * team.threads();
    let mut seconds = f64::INFINITY;
    let begin = Instant::now();
    for _ in (0..ROUNDS).take_while(|round| *round == 0 || begin.elapsed() < LONG) {
        wake(team);
        let start = Instant::now();
        team.run(|worker| {
            worker.phase(tasks, |_| {
                // SAFETY: the unit is usable.
                unsafe { (unit.run)() }
            });
        });
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    Some((2 * tasks * TURNS * SUMS * unit.lanes) as f64 / seconds)
}

/// A unit's loop: sums from `zero` on of the products of `w` and `x`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! turns {
    ($($name:ident $features:literal: $zero:expr, $w:expr, $x:expr,
        |$sum:ident, $a:ident, $b:ident| $product:expr;)*) => {$(
        #[target_feature(enable = $features)]
        fn $name() {
            let (mut sums, $a, $b) = ([$zero; SUMS], $w, black_box($x));
            for _ in 0..TURNS {
                for sum in &mut sums {
                    let $sum = *sum;
                    *sum = $product;
                }
            }
            black_box(sums);
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{DOTS, FMAS};
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{SUMS, TURNS, Unit};
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    /// Of unsigned with signed bytes, best first.
    pub(in super::super) const DOTS: &[Unit] = &[
        Unit { usable: || is_x86_feature_detected!("avx512vnni"), run: dot_avx512, lanes: 64 },
        Unit { usable: || is_x86_feature_detected!("avxvnni"), run: dot_avx_vnni, lanes: 32 },
        Unit { usable: || is_x86_feature_detected!("avx2"), run: dot_avx2, lanes: 32 },
    ];
    pub(in super::super) const FMAS: &[Unit] = &[
        Unit { usable: || is_x86_feature_detected!("avx512f"), run: fma_avx512, lanes: 16 },
        Unit { usable: || is_x86_feature_detected!("fma"), run: fma_avx2, lanes: 8 },
    ];

    /// Products of pairs, added in 16 bits.
    #[target_feature(enable = "avx2")]
    fn dot_avx2() {
        let (mut sums, w) = ([_mm256_setzero_si256(); SUMS], _mm256_set1_epi8(3));
        let mut x = black_box(_mm256_set1_epi8(5));
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(w, x));
                // Makes `x` unknown, so that the products are not moved out of the loop.
                // SAFETY: no instruction.
                unsafe { asm!("/* {x} */", x = inout(ymm_reg) x, options(pure, nomem, nostack)) };
            }
        }
        black_box(sums);
    }

    turns! {
        dot_avx512 "avx512f,avx512vnni": _mm512_setzero_si512(), _mm512_set1_epi8(3),
            _mm512_set1_epi8(5), |sum, w, x| _mm512_dpbusd_epi32(sum, w, x);
        dot_avx_vnni "avx2,avxvnni": _mm256_setzero_si256(), _mm256_set1_epi8(3),
            _mm256_set1_epi8(5), |sum, w, x| _mm256_dpbusd_avx_epi32(sum, w, x);
        fma_avx512 "avx512f": _mm512_setzero_ps(), _mm512_set1_ps(0.5),
            _mm512_set1_ps(0.25), |sum, w, x| _mm512_fmadd_ps(w, x, sum);
        fma_avx2 "avx2,fma": _mm256_setzero_ps(), _mm256_set1_ps(0.5),
            _mm256_set1_ps(0.25), |sum, w, x| _mm256_fmadd_ps(w, x, sum);
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) use arm::{DOTS, FMAS};
#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{SUMS, TURNS, Unit};
    use std::arch::aarch64::*;
    use std::arch::{asm, is_aarch64_feature_detected};
    use std::hint::black_box;

    /// Of signed bytes.
    pub(in super::super) const DOTS: &[Unit] =
        &[Unit { usable: || is_aarch64_feature_detected!("dotprod"), run: dot, lanes: 16 }];
    pub(in super::super) const FMAS: &[Unit] =
        &[Unit { usable: || is_aarch64_feature_detected!("neon"), run: fma, lanes: 4 }];

    turns! {
        dot "neon,dotprod": vdupq_n_s32(0), vdupq_n_s8(3), vdupq_n_s8(5), |sum, w, x| {
            let mut sum = sum;
            // SAFETY: registers only; the CPU has the instruction.
            unsafe {
                asm!("sdot {sum:v}.4s, {w:v}.16b, {x:v}.16b", sum = inout(vreg) sum,
                    w = in(vreg) w, x = in(vreg) x,
                    options(pure, nomem, nostack, preserves_flags));
            }
            sum
        };
        fma "neon": vdupq_n_f32(0.0), vdupq_n_f32(0.5), vdupq_n_f32(0.25),
            |sum, w, x| vfmaq_f32(sum, w, x);
    }
}

/// No vectors that the tiers use.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const DOTS: &[Unit] = &[];
/// As above.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const FMAS: &[Unit] = &[];
