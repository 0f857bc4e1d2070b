//! F32, F16, BF16: elements one by one.
use super::codes::Codes;

pub(super) fn f32(bytes: &[u8], out: &mut Codes) {
    for (out, bytes) in out.f32.iter_mut().zip(bytes.as_chunks().0) {
        *out = f32::from_le_bytes(*bytes);
    }
}

/// F16 and BF16.
pub(super) fn half(bytes: &[u8], out: &mut Codes) {
    for (out, bytes) in out.half.iter_mut().zip(bytes.as_chunks().0) {
        *out = u16::from_le_bytes(*bytes);
    }
}
