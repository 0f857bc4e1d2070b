//! The scalar tier: no intrinsics, the definition of every number.
#![expect(unsafe_op_in_unsafe_fn, reason = "one condition for all: the trait's")]
use super::Isa;
use half::{bf16, f16};

/// Sixteen lanes in arrays. What takes many instructions a lane is not inlined: unrolled in every
/// algorithm it would be most of the crate's build time.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

const N: usize = 16;

// Plain loops: `array::map` and `from_fn` are several times the code to compile.
#[inline(always)]
fn each<A: Copy, R: Copy>(a: [A; N], f: impl Fn(A) -> R) -> [R; N] {
    lanes(|i| f(a[i]))
}
#[inline(always)]
fn both<A: Copy, B: Copy, R: Copy>(a: [A; N], b: [B; N], f: impl Fn(A, B) -> R) -> [R; N] {
    lanes(|i| f(a[i], b[i]))
}
#[inline(always)]
fn lanes<R: Copy>(f: impl Fn(usize) -> R) -> [R; N] {
    let mut out = [f(0); N];
    for (i, lane) in out.iter_mut().enumerate().skip(1) {
        *lane = f(i);
    }
    out
}
#[inline(always)]
unsafe fn read<A: Copy>(p: *const A) -> [A; N] {
    // SAFETY: the caller's pointer is good for N elements; unaligned reads are allowed.
    p.cast::<[A; N]>().read_unaligned()
}
#[inline(always)]
unsafe fn write<A: Copy>(p: *mut A, v: [A; N]) {
    // SAFETY: as in `read`.
    p.cast::<[A; N]>().write_unaligned(v)
}
#[inline(never)]
fn dot(acc: [i32; N], w: [[u8; 4]; N], x: i32, bias: i32) -> [i32; N] {
    let x = x.to_le_bytes();
    both(acc, w, |a, w| (0..4).fold(a, |a, i| a + (i32::from(w[i]) - bias) * i32::from(x[i] as i8)))
}

// SAFETY: no instruction beyond the baseline is used.
unsafe impl Isa for Scalar {
    const LANES: usize = N;
    const TILE: usize = 1;
    const WIDE: i32 = 0;
    const NARROW: bool = false;
    type F = [f32; N];
    type I = [i32; N];
    type B = [[u8; 4]; N];
    type Sum = [i32; N];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::F {
        [x; N]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        read(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::F) {
        write(p, v)
    }
    #[inline(never)]
    unsafe fn load_f16(p: *const u16) -> Self::F {
        each(read(p), |b| f16::from_bits(b).to_f32())
    }
    #[inline(always)]
    unsafe fn words(b: [[u8; 4]; N]) -> [i32; N] {
        b.map(i32::from_le_bytes)
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::F {
        each(read(p), |b| bf16::from_bits(b).to_f32())
    }
    #[inline(always)]
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a / b)
    }
    #[inline(never)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        lanes(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    unsafe fn abs(a: Self::F) -> Self::F {
        each(a, f32::abs)
    }
    #[inline(always)]
    unsafe fn select_lt(a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F {
        lanes(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }
    #[inline(always)]
    unsafe fn round(a: Self::F) -> Self::I {
        each(a, |x| x.round_ties_even() as i32)
    }
    #[inline(always)]
    unsafe fn float(a: Self::I) -> Self::F {
        each(a, |x| x as f32)
    }
    #[inline(always)]
    unsafe fn pick(table: &[f32; 16], i: Self::I) -> Self::F {
        each(i, |i| table[i as usize & 15])
    }
    #[inline(always)]
    unsafe fn from_bits(a: Self::I) -> Self::F {
        each(a, |a| f32::from_bits(a as u32))
    }
    #[inline(always)]
    unsafe fn exp2i(n: Self::I) -> Self::F {
        each(n, |n| f32::from_bits(((n + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn splat_i(x: i32) -> Self::I {
        [x; N]
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, v: Self::I) {
        write(p, v)
    }
    #[inline(always)]
    unsafe fn add_i(a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn mul_i(a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn and_i(a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a & b)
    }
    #[inline(always)]
    unsafe fn or_i(a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a | b)
    }
    #[inline(always)]
    unsafe fn shr_i<const S: u32>(a: Self::I) -> Self::I {
        each(a, |a| ((a as u32) >> S) as i32)
    }
    #[inline(always)]
    unsafe fn shl_i<const S: u32>(a: Self::I) -> Self::I {
        each(a, |a| a << S)
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> Self::I {
        each(read(p), i32::from)
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> Self::I {
        each(read(p), i32::from)
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, v: Self::I) {
        write(p, each(v, |x| x as i8))
    }
    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> Self::B {
        read(p.cast())
    }
    #[inline(always)]
    unsafe fn splat_b(x: u8) -> Self::B {
        [[x; 4]; N]
    }
    #[inline(always)]
    unsafe fn look_up(table: &[u8; 16], i: Self::B) -> Self::B {
        each(i, |i| i.map(|i| table[usize::from(i & 15)]))
    }
    #[inline(always)]
    unsafe fn and_b(a: Self::B, b: Self::B) -> Self::B {
        both(a, b, |a, b| (u32::from_le_bytes(a) & u32::from_le_bytes(b)).to_le_bytes())
    }
    #[inline(always)]
    unsafe fn or_b(a: Self::B, b: Self::B) -> Self::B {
        both(a, b, |a, b| (u32::from_le_bytes(a) | u32::from_le_bytes(b)).to_le_bytes())
    }
    #[inline(always)]
    unsafe fn shr_b(a: Self::B, n: u32) -> Self::B {
        each(a, |a| (u32::from_le_bytes(a) >> n).to_le_bytes())
    }
    #[inline(always)]
    unsafe fn shl_b(a: Self::B, n: u32) -> Self::B {
        each(a, |a| (u32::from_le_bytes(a) << n).to_le_bytes())
    }

    #[inline(always)]
    unsafe fn open(acc: Self::I) -> Self::Sum {
        acc
    }
    #[inline(always)]
    unsafe fn dot4(sum: Self::Sum, w: Self::B, x: i32) -> Self::Sum {
        dot(sum, w, x, 0)
    }
    #[inline(always)]
    unsafe fn dot4_wide(sum: Self::Sum, w: Self::B, x: i32) -> Self::Sum {
        dot(sum, w, x, 128)
    }
    #[inline(always)]
    unsafe fn close(sum: Self::Sum, _: Self::I) -> Self::I {
        sum
    }
    #[inline(always)]
    unsafe fn close_scaled(sum: Self::Sum, scale: Self::I, acc: Self::I) -> Self::I {
        lanes(|i| acc[i] + scale[i] * sum[i])
    }
    #[inline(always)]
    unsafe fn scale(s: Self::I) -> Self::I {
        s
    }
}

super::tier!(
    /// The scalar tier.
    KERNELS, Scalar, "scalar", || true
);
