//! Tables of operations that several syntaxes share, each with tags of its own.
use super::Op;

/// An object with the name and the arguments under their usual keys.
pub(super) const OBJECT: Op =
    Op::Object { name: &["name"], arguments: &["arguments"], known: false };

/// The items of a list of such objects.
pub(super) const OBJECTS: &[Op] = &[OBJECT, Op::End];

/// A list of objects between two tags.
macro_rules! listed {
    ($open:literal, $items:expr, $close:literal) => {
        &[(
            $crate::tools::Opening::Tag($open),
            &[
                $crate::tools::Op::Text($open),
                $crate::tools::Op::Space(""),
                $crate::tools::Op::List($items),
                $crate::tools::Op::Space(""),
                $crate::tools::Op::Text($close),
            ],
        )]
    };
}

/// A section of calls that have the tool's and each parameter's name in an attribute.
macro_rules! invoked {
    ($section:literal, $mark:literal, $attributes:expr) => {
        &[(
            $crate::tools::Opening::Tag(concat!("<", $section, ">")),
            &[
                $crate::tools::Op::Text(concat!("<", $section, ">")),
                $crate::tools::Op::Space("\n"),
                $crate::tools::Op::Until(
                    &[
                        $crate::tools::Op::Text(concat!("<", $mark, "invoke name=\"")),
                        $crate::tools::Op::Name($crate::tools::Name {
                            until: "\">",
                            before: &[],
                            read: $crate::tools::plain,
                            around: ("", "\">\n"),
                        }),
                        $crate::tools::Op::Params(&$crate::tools::Params {
                            open: concat!("<", $mark, "parameter name=\""),
                            key_end: "\"",
                            value: ">",
                            close: concat!("</", $mark, "parameter>"),
                            pad: "",
                            attributes: $attributes,
                            spaces: ("", "\n"),
                            cdata: false,
                        }),
                        $crate::tools::Op::Text(concat!("</", $mark, "invoke>")),
                        $crate::tools::Op::End,
                        $crate::tools::Op::Space("\n"),
                    ],
                    concat!("</", $section, ">"),
                ),
            ],
        )]
    };
}

/// A call that has the tool's and each parameter's name after a sign of equality.
macro_rules! equated {
    ($tag:literal, $pad:literal) => {
        &[(
            $crate::tools::Opening::Tag(concat!("<", $tag, ">")),
            &[
                $crate::tools::Op::Text(concat!("<", $tag, ">")),
                $crate::tools::Op::Space("\n"),
                $crate::tools::Op::Text("<function="),
                $crate::tools::Op::Name($crate::tools::Name {
                    until: ">",
                    before: &[],
                    read: $crate::tools::plain,
                    around: ("", ">\n"),
                }),
                $crate::tools::Op::Params(&$crate::tools::Params {
                    open: "<parameter=",
                    key_end: ">",
                    value: "",
                    close: "</parameter>",
                    pad: $pad,
                    attributes: None,
                    spaces: ("", "\n"),
                    cdata: false,
                }),
                $crate::tools::Op::Text("</function>"),
                $crate::tools::Op::Space("\n"),
                $crate::tools::Op::Text(concat!("</", $tag, ">")),
                $crate::tools::Op::End,
            ],
        )]
    };
}

pub(super) use {equated, invoked, listed};
