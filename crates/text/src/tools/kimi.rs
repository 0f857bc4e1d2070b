//! `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`, in a section.
use super::{Name, Op, Opening, Syntax, plain};

pub const KIMI: Syntax = Syntax {
    name: "kimi_k2",
    models: "Kimi K2",
    calls: &[(
        Opening::Tag("<|tool_calls_section_begin|>"),
        &[
            Op::Text("<|tool_calls_section_begin|>"),
            Op::Until(
                &[
                    Op::Text("<|tool_call_begin|>"),
                    Op::Name(Name {
                        until: "<|tool_call_argument_begin|>",
                        before: &[],
                        read,
                        around: ("functions.", ":0<|tool_call_argument_begin|>"),
                    }),
                    Op::Json,
                    Op::Space(""),
                    Op::Text("<|tool_call_end|>"),
                    Op::End,
                ],
                "<|tool_calls_section_end|>",
            ),
        ],
    )],
    marks: &["<|tool_calls_section_begin|>"],
    tokens: &[
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ],
};

/// `functions.NAME:0`, or a part of it.
fn read(text: &str) -> Option<&str> {
    let text = text.trim();
    let text = text.strip_prefix("functions.").unwrap_or(text);
    let number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    plain(text.rsplit_once(':').filter(|(_, n)| number(n)).map_or(text, |(name, _)| name))
}
