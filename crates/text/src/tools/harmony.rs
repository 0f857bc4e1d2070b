//! A message `to=functions.NAME` whose text is the arguments: see [`Channels`](crate::reply::Channels).
use super::shape::text;
use super::{Header, Op, Opening, Shape, Syntax};

pub const HARMONY: Syntax = Syntax {
    name: "harmony",
    models: "gpt-oss",
    calls: &[(Opening::Message(&HEADER), &[Op::Json, Op::End])],
    marks: &["<|channel|>commentary"],
    tokens: &[
        "<|start|>",
        "<|channel|>",
        "<|constrain|>",
        "<|message|>",
        "<|end|>",
        "<|call|>",
        "<|return|>",
    ],
};

const HEADER: Header = Header {
    open: "to=functions.",
    after: || {
        let forms = [" <|constrain|>json", "<|constrain|>json", " json"].map(text);
        Shape::All(vec![
            Shape::Maybe(Box::new(text("<|channel|>commentary"))),
            Shape::Maybe(Box::new(Shape::Any(forms.into()))),
            text("<|message|>"),
        ])
    },
    before: || {
        let thoughts = Shape::All(vec![
            text("<|channel|>analysis<|message|>"),
            Shape::Until("<|end|>".into()),
            text("<|start|>assistant"),
        ]);
        Shape::All(vec![
            Shape::Maybe(Box::new(Shape::More(Box::new(thoughts)))),
            Shape::Any(vec![text(" "), text("<|channel|>commentary ")]),
        ])
    },
    again: None,
};
