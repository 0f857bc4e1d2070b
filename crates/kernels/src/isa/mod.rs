//! Instruction sets: what the generic algorithms are written over, and one table of leaves each.
use crate::generic::lanes;
use crate::tier::Kernels;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod scalar;

/// The tiers of this architecture, fastest first.
#[cfg(target_arch = "x86_64")]
pub(crate) const TIERS: &[&Kernels] =
    &[&avx512::KERNELS, &avx_vnni::KERNELS, &avx2::KERNELS, &scalar::KERNELS];
/// The tiers of this architecture, fastest first.
#[cfg(target_arch = "aarch64")]
pub(crate) const TIERS: &[&Kernels] = &[&neon::KERNELS, &scalar::KERNELS];
/// The tiers of this architecture, fastest first.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) const TIERS: &[&Kernels] = &[&scalar::KERNELS];

/// A token for an instruction set with `LANES` 32-bit lanes.
///
/// Methods are `#[inline(always)]` and only called from functions that carry the set's
/// `#[target_feature]`, so that they become single instructions there. f32 arithmetic is IEEE with
/// round to nearest even, on every set.
///
/// # Safety
/// Every method requires that the CPU has the set; loads and stores, that the pointer is good for
/// all lanes (it need not be aligned).
pub(crate) unsafe trait Isa: Copy {
    /// Divides 16.
    const LANES: usize;
    /// Batch rows that a matmul tile keeps in registers: 1, 2, 4, 6 or 8.
    const TILE: usize;
    /// What the codes of [`Isa::dot4_wide`] count as biased by: 128 where it multiplies them as
    /// they are, 0 where it takes 128 off itself. A caller that wants `Σ (q - 128)·x` starts its
    /// accumulator at `-WIDE·Σx`.
    const WIDE: i32;
    /// Whether a run of dots is summed in 16 bits, which bounds its length: see [`run`].
    const NARROW: bool;
    /// f32 lanes.
    type F: Copy;
    /// i32 lanes.
    type I: Copy;
    /// 4 bytes to each lane.
    type B: Copy;
    /// A run of dots being summed.
    type Sum: Copy;

    unsafe fn splat(x: f32) -> Self::F;
    unsafe fn load(p: *const f32) -> Self::F;
    unsafe fn store(p: *mut f32, v: Self::F);
    /// Widens IEEE halves.
    unsafe fn load_f16(p: *const u16) -> Self::F;
    /// Widens bfloat16s.
    unsafe fn load_bf16(p: *const u16) -> Self::F;
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `a·b + c`, rounded once.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `if a > b { a } else { b }` in each lane (so `b` where either is NaN).
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    /// `if a < b { a } else { b }` in each lane.
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F;
    /// The largest lane; some lane that is no NaN, or a NaN, if one is.
    unsafe fn largest(a: Self::F) -> f32 {
        let mut x = [0.0; 16];
        // SAFETY: the lanes are at most sixteen.
        unsafe { Self::store(x.as_mut_ptr(), a) };
        tree(&mut x, Self::LANES, lanes::max)
    }
    /// The sum of sixteen numbers that are the leading vectors of `x`: those eight apart are added
    /// first, then those four, two and one apart.
    unsafe fn sum_16(x: [Self::F; 4]) -> f32 {
        let mut all = [0.0; 16];
        for (i, x) in x[..16 / Self::LANES].iter().enumerate() {
            // SAFETY: vector `i` ends within the sixteen.
            unsafe { Self::store(all.as_mut_ptr().add(i * Self::LANES), *x) };
        }
        tree(&mut all, 16, |a, b| a + b)
    }
    /// The square root, rounded once.
    unsafe fn sqrt(a: Self::F) -> Self::F {
        let mut x = [0.0; 16];
        // SAFETY: the lanes are at most sixteen.
        unsafe { Self::store(x.as_mut_ptr(), a) };
        x[..Self::LANES].iter_mut().for_each(|x| *x = x.sqrt());
        // SAFETY: as above.
        unsafe { Self::load(x.as_ptr()) }
    }
    /// Clears the sign.
    unsafe fn abs(a: Self::F) -> Self::F;
    /// `if a < b { x } else { y }` in each lane.
    unsafe fn select_lt(a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F;
    /// To the nearest integer, ties to even; the value must fit.
    unsafe fn round(a: Self::F) -> Self::I;
    /// The nearest f32, ties to even.
    unsafe fn float(a: Self::I) -> Self::F;
    /// The same bits.
    unsafe fn from_bits(a: Self::I) -> Self::F;
    /// Each lane's element of a table; `i` is below 16.
    unsafe fn pick(table: &[f32; 16], i: Self::I) -> Self::F;
    /// `2^n` for `n` in -126..=127.
    unsafe fn exp2i(n: Self::I) -> Self::F;

    unsafe fn splat_i(x: i32) -> Self::I;
    unsafe fn store_i(p: *mut i32, v: Self::I);
    unsafe fn add_i(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn mul_i(a: Self::I, b: Self::I) -> Self::I;
    /// The sum of all lanes.
    unsafe fn total(a: Self::I) -> i32 {
        let mut x = [0; 16];
        // SAFETY: as in `largest`.
        unsafe { Self::store_i(x.as_mut_ptr(), a) };
        x[..Self::LANES].iter().sum()
    }
    unsafe fn and_i(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn or_i(a: Self::I, b: Self::I) -> Self::I;
    /// Logical, every lane by `N`.
    unsafe fn shr_i<const N: u32>(a: Self::I) -> Self::I;
    unsafe fn shl_i<const N: u32>(a: Self::I) -> Self::I;
    /// Widens `LANES` unsigned bytes.
    unsafe fn load_u8(p: *const u8) -> Self::I;
    /// Widens `LANES` signed bytes.
    unsafe fn load_i8(p: *const i8) -> Self::I;
    /// Narrows to `LANES` signed bytes; the values must fit.
    unsafe fn store_i8(p: *mut i8, v: Self::I);

    /// The 32-bit lanes.
    unsafe fn words(b: Self::B) -> Self::I;
    /// Loads `4·LANES` bytes.
    unsafe fn load_b(p: *const u8) -> Self::B;
    unsafe fn splat_b(x: u8) -> Self::B;
    /// Each byte's entry of a table; bytes are below 16.
    unsafe fn look_up(table: &[u8; 16], i: Self::B) -> Self::B;
    unsafe fn and_b(a: Self::B, b: Self::B) -> Self::B;
    unsafe fn or_b(a: Self::B, b: Self::B) -> Self::B;
    /// Shifts 32-bit lanes right, so bits of the byte above come in: mask after it. Constant `n`s
    /// become immediates.
    unsafe fn shr_b(a: Self::B, n: u32) -> Self::B;
    /// Shifts 32-bit lanes left: mask after it.
    unsafe fn shl_b(a: Self::B, n: u32) -> Self::B;

    /// Starts a run of dots that adds to `acc`.
    unsafe fn open(acc: Self::I) -> Self::Sum;
    /// Adds `Σ w[i]·x[i]` over each lane's 4 bytes: codes `w` below 128, `x` the four signed bytes
    /// (not -128) of one 32-bit word, the same for every lane. At most [`run`] times in a run, and
    /// then exact.
    unsafe fn dot4(sum: Self::Sum, w: Self::B, x: i32) -> Self::Sum;
    /// As `dot4` for codes up to 255; see [`Isa::WIDE`].
    unsafe fn dot4_wide(sum: Self::Sum, w: Self::B, x: i32) -> Self::Sum;
    /// `acc` plus the dots of the run that `open(acc)` started.
    unsafe fn close(sum: Self::Sum, acc: Self::I) -> Self::I;
    /// `acc` plus `scale` times the dots of the run that `open(0)` started; `scale` by
    /// [`Isa::scale`].
    unsafe fn close_scaled(sum: Self::Sum, scale: Self::I, acc: Self::I) -> Self::I;
    /// Brings 16-bit scales to the form that `close_scaled` takes.
    unsafe fn scale(s: Self::I) -> Self::I;
    /// Dots that are `x` in every lane, an even number below 2¹⁶ in magnitude, to be scaled: a
    /// run of its own where sums are [narrow](Isa::NARROW), or else the beginning of one.
    #[inline(always)]
    unsafe fn offset(x: i32) -> Self::Sum {
        // SAFETY: the CPU has the set.
        unsafe { Self::open(Self::splat_i(x)) }
    }
}

/// Joins the `count` leading numbers, a power of two: those that are half of it apart, and so on.
fn tree(x: &mut [f32; 16], mut count: usize, join: fn(f32, f32) -> f32) -> f32 {
    while count > 1 {
        count /= 2;
        for i in 0..count {
            x[i] = join(x[i], x[i + count]);
        }
    }
    x[0]
}

/// How many dots of `bits`-bit codes a run may sum: 16-bit sums of pairs, each at most
/// `2·127·(2^bits - 1)` (8-bit codes: `2·127·128`), must stay below 2^15. 8 is a block of 32.
pub(crate) const fn run<S: Isa>(bits: usize) -> usize {
    match bits {
        _ if !S::NARROW => 8,
        0..=4 => 8,
        5 => 4,
        6 => 2,
        _ => 1,
    }
}

/// Declares one tier's table: every generic algorithm instantiated for a token in a leaf function
/// that carries the set's `#[target_feature]`.
macro_rules! tier {
    ($(#[$doc:meta])* $table:ident, $isa:ident, $name:literal, $usable:expr $(, $feature:literal)?) => {
        mod leaf {
            use crate::{act::QuantRow, generic, kv::*, mat::MatmulTask, ops::*};
            use std::ops::Range;
            $crate::isa::leaves! { [$($feature)?] $isa;
                matmul::f32 as matmul_f32(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::f16 as matmul_f16(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::bf16 as matmul_bf16(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w8 as matmul_w8(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w8x as matmul_w8x(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w8f as matmul_w8f(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w8z as matmul_w8z(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w8fz as matmul_w8fz(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w8h as matmul_w8h(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w8e as matmul_w8e(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w2 as matmul_w2(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4 as matmul_w4(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4z as matmul_w4z(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4b as matmul_w4b(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4h as matmul_w4h(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4n as matmul_w4n(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4p as matmul_w4p(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4l as matmul_w4l(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4e as matmul_w4e(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4v as matmul_w4v(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4m as matmul_w4m(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w5 as matmul_w5(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w5m as matmul_w5m(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w2k as matmul_w2k(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4k as matmul_w4k(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w5k as matmul_w5k(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w6k as matmul_w6k(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w3k as matmul_w3k(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w3i1 as matmul_w3i1(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w3i2 as matmul_w3i2(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4i3 as matmul_w4i3(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4i3s as matmul_w4i3s(t: &MatmulTask<'_>, p: Range<usize>);
                matmul::w4i4 as matmul_w4i4(t: &MatmulTask<'_>, p: Range<usize>);
                across::across as across(t: &AcrossTask<'_>, runs: Range<usize>);
                act::quantise as quantise(x: &[f32], out: QuantRow<'_>);
                norm::norm as norm(n: &Norm<'_>, x: &mut [f32]);
                act::add as add(y: &[f32], scale: f32, x: &mut [f32]);
                rope::rope as rope(l: RopeLayout, x: &mut [f32], cos: &[f32], sin: &[f32]);
                glu::glu as glu(f: Glu, gate: &[f32], up: &[f32], out: &mut [f32]);
                act::softcap as softcap(x: &mut [f32], cap: f32);
                attend::page as attend_page(t: &PageTask<'_>);
                attend::merge as merge(t: MergeTask<'_>);
                index::page as index_page(t: &IndexTask<'_>, out: &mut [f32; PAGE]);
                gate::gate as gate(g: Gate<'_>, x: &[f32], out: &mut [f32]);
                recurrent::conv as conv(t: &ConvTask<'_>);
                recurrent::selective as selective(t: &SelectiveTask<'_>);
                recurrent::linear as linear_state(t: &LinearStateTask<'_>);
                recurrent::delta as delta(t: &DeltaTask<'_>);
                recurrent::rg_lru as rg_lru(t: &RgLruTask<'_>);
            }
        }
        $(#[$doc])*
        pub(crate) const $table: $crate::tier::Kernels = $crate::tier::Kernels {
            name: $name,
            usable: $usable,
            tile: <$isa as $crate::isa::Isa>::TILE,
            matmul: [
                leaf::matmul_f32, leaf::matmul_f16, leaf::matmul_bf16, leaf::matmul_w8,
                leaf::matmul_w8x, leaf::matmul_w8f, leaf::matmul_w8z, leaf::matmul_w8fz,
                leaf::matmul_w8h, leaf::matmul_w8e, leaf::matmul_w2, leaf::matmul_w4,
                leaf::matmul_w4z, leaf::matmul_w4b, leaf::matmul_w4h, leaf::matmul_w4n,
                leaf::matmul_w4p, leaf::matmul_w4l, leaf::matmul_w4e, leaf::matmul_w4v,
                leaf::matmul_w4m, leaf::matmul_w5, leaf::matmul_w5m, leaf::matmul_w2k,
                leaf::matmul_w4k, leaf::matmul_w5k, leaf::matmul_w6k, leaf::matmul_w3k,
                leaf::matmul_w3i1, leaf::matmul_w3i2, leaf::matmul_w4i3, leaf::matmul_w4i3s,
                leaf::matmul_w4i4,
            ],
            across: leaf::across,
            quantise: leaf::quantise,
            norm: leaf::norm,
            add: leaf::add,
            rope: leaf::rope,
            glu: leaf::glu,
            softcap: leaf::softcap,
            attend_page: leaf::attend_page,
            merge: leaf::merge,
            index_page: leaf::index_page,
            gate: leaf::gate,
            conv: leaf::conv,
            selective: leaf::selective,
            linear_state: leaf::linear_state,
            delta: leaf::delta,
            rg_lru: leaf::rg_lru,
        };
    };
}
pub(crate) use tier;

/// The leaf functions of [`tier`].
macro_rules! leaves {
    ($feature:tt $isa:ident; $($module:ident::$generic:ident as $leaf:ident($($arg:ident: $ty:ty),*);)*) => {$(
        $crate::isa::leaf! { $feature $isa; $module::$generic as $leaf($($arg: $ty),*) }
    )*};
}
pub(crate) use leaves;

/// One leaf function.
macro_rules! leaf {
    ([$($feature:literal)?] $isa:ident; $module:ident::$generic:ident as $leaf:ident($($arg:ident: $ty:ty),*)) => {
        $(#[target_feature(enable = $feature)])?
        pub(super) unsafe fn $leaf($($arg: $ty),*) {
            // SAFETY: the caller's promise (a usable tier, agreeing shapes) is the callee's.
            unsafe { generic::$module::$generic::<super::$isa>($($arg),*) }
        }
    };
}
pub(crate) use leaf;
