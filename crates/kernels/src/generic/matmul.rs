//! Matrix products, one function a layout.
use crate::{isa::Isa, mat::MatmulTask};
use std::ops::Range;
pub(crate) unsafe fn f32<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn f16<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn bf16<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w8<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w8f<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w4<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w4m<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w5<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w5m<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w2k<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w4k<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w5k<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
pub(crate) unsafe fn w6k<S: Isa>(t: &MatmulTask<'_>, panels: Range<usize>) {
    let _ = (t, panels);
    todo!()
}
