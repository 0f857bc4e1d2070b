//! Matrix products, one function a layout.
//!
//! A tile is `R` batch rows by `V` vectors of outputs, all of its inputs in order. Its weights are
//! decoded once for its rows, its sums stay in registers, and one output's sum is the same sequence
//! of operations in every tile: the tile's shape never shows in the numbers. Per 32 inputs of an
//! integer layout these are: the exact integer dot; `y = fma(dot, d·xs, y)`; and with a minimum
//! `y = fma(m, fsum, y)`; where halves of 32 have scales of their own, half by half. Layouts that read f32 activations take `y = fma(w, x, y)` input by input,
//! even and odd ones apart, and add both sums.
#![expect(clippy::needless_range_loop, reason = "rows and vectors index several arrays")]
mod block;
mod block_f32;
mod codes;
mod float;
mod superblock;
mod tile;

pub(crate) use block::{w2, w4, w4b, w4e, w4h, w4l, w4m, w4v, w4z, w5, w5m};
pub(crate) use block::{w8, w8f, w8fz, w8h, w8z};
pub(crate) use block_f32::{w4n, w4p, w8e, w8x};
pub(crate) use float::{bf16, f16, f32};
pub(crate) use superblock::{w2k, w3i1, w3i2, w3k, w4i3, w4i3s, w4i4, w4k, w5k, w6k};
