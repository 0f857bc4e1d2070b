//! The rules of the house that the compiler does not hold: `tidy` reads the sources, `no_c` the
//! dependencies. Both return what breaks a rule, a line each.
#![forbid(unsafe_code)]

pub mod no_c;
pub mod source;
pub mod tidy;
