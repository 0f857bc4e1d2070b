//! A message `to=functions.NAME` whose text is the arguments: see [`Channels`](crate::reply::Channels).
use super::{Op, Opening, Syntax};

pub const HARMONY: Syntax = Syntax {
    name: "harmony",
    models: "gpt-oss",
    calls: &[(Opening::Message, &[Op::Json, Op::End])],
    marks: &["<|channel|>commentary"],
    tokens: &["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>"],
};
