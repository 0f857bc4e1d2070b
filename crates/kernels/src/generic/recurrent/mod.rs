//! Mixers with a state of fixed size, a few channels or one head at a time: lanes are channels, or
//! elements of a value, and sums go over keys in order.
mod conv;
mod elementwise;
mod matrix;

pub(crate) use conv::conv;
pub(crate) use elementwise::{rg_lru, selective};
pub(crate) use matrix::{delta, linear};
