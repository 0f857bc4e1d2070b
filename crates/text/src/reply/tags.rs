//! The tags that thoughts are written between.

/// How a model marks its thoughts.
#[derive(Debug, PartialEq, Eq)]
pub struct Tags {
    /// Begins thoughts. Often the prompt ends with it already.
    pub open: &'static str,
    /// Ends thoughts.
    pub close: &'static str,
    /// Tags around the answer that follows thoughts, which are not part of it.
    pub answer: &'static [&'static str],
    /// A template that has all of these texts has these tags.
    pub marks: &'static [&'static str],
}

const fn tags(open: &'static str, close: &'static str, marks: &'static [&'static str]) -> Tags {
    Tags { open, close, answer: &[], marks }
}

/// All, those with more marks first.
pub const TAGS: &[Tags] = &[
    Tags {
        answer: &["<response>", "</response>"],
        ..tags("<think>", "</think>", &["<think>", "<response>", "</response>"])
    },
    tags("<think>", "</think>", &["<think>"]),
    tags("<think>", "</think>", &["</think>"]),
    tags("[THINK]", "[/THINK]", &["[THINK]"]),
    tags("<seed:think>", "</seed:think>", &["<seed:think>"]),
    tags("<mm:think>", "</mm:think>", &["<mm:think>"]),
    Tags {
        answer: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
        ..tags("<|START_THINKING|>", "<|END_THINKING|>", &["<|START_THINKING|>"])
    },
    tags("<|inner_prefix|>", "<|inner_suffix|>", &["<|inner_prefix|>"]),
    tags("<|channel>thought\n", "<channel|>", &["<|channel>thought\\n"]),
    Tags {
        answer: &["[END FINAL RESPONSE]"],
        ..tags(
            "Here are my reasoning steps:\n",
            "[BEGIN FINAL RESPONSE]",
            &["[BEGIN FINAL RESPONSE]"],
        )
    },
];

impl Tags {
    /// The tags that a template's source has.
    pub fn of(source: &str) -> Option<&'static Tags> {
        TAGS.iter().find(|tags| tags.marks.iter().all(|mark| source.contains(mark)))
    }
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static str> {
        [self.open, self.close].into_iter().chain(self.answer.iter().copied())
    }
}
