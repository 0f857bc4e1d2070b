//! One page of attention, and the join of two pages' shares.
use crate::{isa::Isa, kv::*};
pub(crate) unsafe fn page<S: Isa>(t: &PageTask<'_>) {
    let _ = t;
    todo!()
}
pub(crate) unsafe fn merge<S: Isa>(t: MergeTask<'_>) {
    let _ = t;
    todo!()
}
