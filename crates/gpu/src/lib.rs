//! The GPU executor. Nothing is implemented yet: `doctor` says so and `--backend` refuses by name.
#![forbid(unsafe_code)]
