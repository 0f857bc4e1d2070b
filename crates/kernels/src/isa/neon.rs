//! 128-bit Arm with a byte dot product (FEAT_DotProd): Cortex-A76, Neoverse N1 and Apple M1 onwards.
#![expect(unsafe_op_in_unsafe_fn, reason = "one condition for all: the trait's")]
use super::Isa;
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// Four lanes.
#[derive(Clone, Copy)]
pub(crate) struct Neon;

// SAFETY: every instruction is of NEON or FEAT_DotProd, which `usable` asks for.
unsafe impl Isa for Neon {
    const LANES: usize = 4;
    const TILE: usize = 8;
    const WIDE: i32 = 0;
    const NARROW: bool = false;
    type F = float32x4_t;
    type I = int32x4_t;
    type B = uint8x16_t;
    type Sum = int32x4_t;

    #[inline(always)]
    unsafe fn splat(x: f32) -> float32x4_t {
        vdupq_n_f32(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> float32x4_t {
        vld1q_f32(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: float32x4_t) {
        vst1q_f32(p, v)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> float32x4_t {
        let half = vld1_u16(p);
        let v: float32x4_t;
        asm!("fcvtl {v:v}.4s, {h:v}.4h", v = out(vreg) v, h = in(vreg) half,
            options(pure, nomem, nostack, preserves_flags));
        v
    }
    #[inline(always)]
    unsafe fn words(b: uint8x16_t) -> int32x4_t {
        vreinterpretq_s32_u8(b)
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> float32x4_t {
        vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(vld1_u16(p))))
    }
    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vaddq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vsubq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vmulq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vdivq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        vfmaq_f32(c, a, b)
    }
    #[inline(always)]
    unsafe fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vbslq_f32(vcgtq_f32(a, b), a, b)
    }
    #[inline(always)]
    unsafe fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vbslq_f32(vcltq_f32(a, b), a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: float32x4_t) -> float32x4_t {
        vabsq_f32(a)
    }
    #[inline(always)]
    unsafe fn select_lt(
        a: float32x4_t,
        b: float32x4_t,
        x: float32x4_t,
        y: float32x4_t,
    ) -> float32x4_t {
        vbslq_f32(vcltq_f32(a, b), x, y)
    }
    #[inline(always)]
    unsafe fn round(a: float32x4_t) -> int32x4_t {
        vcvtnq_s32_f32(a)
    }
    #[inline(always)]
    unsafe fn float(a: int32x4_t) -> float32x4_t {
        vcvtq_f32_s32(a)
    }
    #[inline(always)]
    unsafe fn pick(table: &[f32; 16], i: int32x4_t) -> float32x4_t {
        // By bytes: the four of element `i` are 4i and up.
        let first = vmulq_s32(i, vdupq_n_s32(0x0404_0404));
        let bytes = vreinterpretq_u8_s32(vaddq_s32(first, vdupq_n_s32(0x0302_0100)));
        let table = vld1q_u8_x4(table.as_ptr().cast());
        vreinterpretq_f32_u8(vqtbl4q_u8(table, bytes))
    }
    #[inline(always)]
    unsafe fn from_bits(a: int32x4_t) -> float32x4_t {
        vreinterpretq_f32_s32(a)
    }
    #[inline(always)]
    unsafe fn exp2i(n: int32x4_t) -> float32x4_t {
        vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127))))
    }

    #[inline(always)]
    unsafe fn splat_i(x: i32) -> int32x4_t {
        vdupq_n_s32(x)
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, v: int32x4_t) {
        vst1q_s32(p, v)
    }
    #[inline(always)]
    unsafe fn add_i(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        vaddq_s32(a, b)
    }
    #[inline(always)]
    unsafe fn mul_i(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        vmulq_s32(a, b)
    }
    #[inline(always)]
    unsafe fn and_i(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        vandq_s32(a, b)
    }
    #[inline(always)]
    unsafe fn or_i(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        vorrq_s32(a, b)
    }
    #[inline(always)]
    unsafe fn shr_i<const N: u32>(a: int32x4_t) -> int32x4_t {
        let right = vdupq_n_s32(-(N as i32));
        vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), right))
    }
    #[inline(always)]
    unsafe fn shl_i<const N: u32>(a: int32x4_t) -> int32x4_t {
        vshlq_s32(a, vdupq_n_s32(N as i32))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> int32x4_t {
        let bytes = vcreate_u8(u64::from(p.cast::<u32>().read_unaligned()));
        vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> int32x4_t {
        let bytes = vcreate_s8(u64::from(p.cast::<u32>().read_unaligned()));
        vmovl_s16(vget_low_s16(vmovl_s8(bytes)))
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, v: int32x4_t) {
        let words = vmovn_s32(v);
        let bytes = vmovn_s16(vcombine_s16(words, words));
        p.cast::<u32>().write_unaligned(vget_lane_u32::<0>(vreinterpret_u32_s8(bytes)))
    }

    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> uint8x16_t {
        vld1q_u8(p)
    }
    #[inline(always)]
    unsafe fn splat_b(x: u8) -> uint8x16_t {
        vdupq_n_u8(x)
    }
    #[inline(always)]
    unsafe fn look_up(table: &[u8; 16], i: uint8x16_t) -> uint8x16_t {
        vqtbl1q_u8(vld1q_u8(table.as_ptr()), i)
    }
    #[inline(always)]
    unsafe fn and_b(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        vandq_u8(a, b)
    }
    #[inline(always)]
    unsafe fn or_b(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        vorrq_u8(a, b)
    }
    #[inline(always)]
    unsafe fn shr_b(a: uint8x16_t, n: u32) -> uint8x16_t {
        vreinterpretq_u8_u32(vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(-(n as i32))))
    }
    #[inline(always)]
    unsafe fn shl_b(a: uint8x16_t, n: u32) -> uint8x16_t {
        vreinterpretq_u8_u32(vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(n as i32)))
    }

    #[inline(always)]
    unsafe fn open(acc: int32x4_t) -> int32x4_t {
        acc
    }
    #[inline(always)]
    unsafe fn dot4(mut sum: int32x4_t, w: uint8x16_t, x: i32) -> int32x4_t {
        asm!("sdot {sum:v}.4s, {w:v}.16b, {x:v}.16b", sum = inout(vreg) sum, w = in(vreg) w,
            x = in(vreg) vdupq_n_s32(x), options(pure, nomem, nostack, preserves_flags));
        sum
    }
    #[inline(always)]
    unsafe fn dot4_wide(sum: int32x4_t, w: uint8x16_t, x: i32) -> int32x4_t {
        Self::dot4(sum, veorq_u8(w, vdupq_n_u8(128)), x)
    }
    #[inline(always)]
    unsafe fn close(sum: int32x4_t, _: int32x4_t) -> int32x4_t {
        sum
    }
    #[inline(always)]
    unsafe fn close_scaled(sum: int32x4_t, scale: int32x4_t, acc: int32x4_t) -> int32x4_t {
        vmlaq_s32(acc, sum, scale)
    }
    #[inline(always)]
    unsafe fn scale(s: int32x4_t) -> int32x4_t {
        s
    }
}

super::tier!(
    /// The NEON tier with byte dot products.
    KERNELS, Neon, "neon-dot",
    || is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("dotprod"),
    "neon,dotprod"
);
