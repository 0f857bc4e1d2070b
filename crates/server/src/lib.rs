//! The HTTP server. Nothing is implemented yet: the binary has no `serve` command.
#![forbid(unsafe_code)]
