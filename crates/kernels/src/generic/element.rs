//! How a float is stored: what weights and pages of keys and values have in common.
use crate::isa::Isa;

/// A stored float.
pub(crate) trait Element {
    /// To one element.
    const BYTES: usize;
    /// Lanes from element `i` on, widened.
    unsafe fn load<S: Isa>(p: *const u8, i: usize) -> S::F;
}

/// f32.
pub(crate) struct Single;
/// IEEE half.
pub(crate) struct Half;
/// bfloat16.
pub(crate) struct Brain;

macro_rules! elements {
    ($($element:ident $word:ty, $load:ident;)*) => {$(
        impl Element for $element {
            const BYTES: usize = size_of::<$word>();
            #[inline(always)]
            unsafe fn load<S: Isa>(p: *const u8, i: usize) -> S::F {
                // SAFETY: the caller's promise: the CPU has the set, and all lanes are there.
                unsafe { S::$load(p.cast::<$word>().add(i)) }
            }
        }
    )*};
}
elements! {
    Single f32, load;
    Half u16, load_f16;
    Brain u16, load_bf16;
}
