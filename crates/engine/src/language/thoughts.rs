//! Where an answer's form begins: after its thoughts, if it has any.
use super::Language;
use crate::batch::TokenId;
use rinfer_text::reply::Tags;

/// What an answer may write before it has its form.
#[derive(Clone, Copy)]
pub(crate) struct Thoughts {
    pub tags: &'static Tags,
    /// Whether the prompt has opened them.
    pub open: bool,
}

impl Language {
    /// How an answer to a conversation may think, if its model does.
    pub(crate) fn thoughts(&self, prompt: &[TokenId]) -> Option<Thoughts> {
        let tags = Tags::of(self.template.as_ref().ok()?.source())?;
        let tail = &prompt[prompt.len().saturating_sub(32)..];
        let tail: Vec<u32> = tail.iter().map(|id| id.0).collect();
        let text = self.tokenizer.decode(&tail, false);
        let ends = |tag: &str| text.trim_end().ends_with(tag.trim_end());
        (!ends(tags.close)).then(|| Thoughts { tags, open: ends(tags.open) })
    }
}

/// What an answer has said so far, as far as thoughts may end in it.
#[derive(Default)]
pub(crate) struct Said {
    /// What thoughts begin with; none once they have begun.
    open: Option<&'static str>,
    /// What ends them; none once they have ended, or if there are none.
    close: Option<&'static str>,
    text: String,
    /// Where in the text what follows thoughts begins.
    pub begins: usize,
}

impl Said {
    pub fn new(thoughts: Option<Thoughts>) -> Said {
        let open = thoughts.filter(|t| !t.open).map(|t| t.tags.open);
        Said { open, close: thoughts.map(|t| t.tags.close), ..Said::default() }
    }

    /// Takes a piece of text, and the name of its token if that is a control token.
    pub fn push(&mut self, text: &str, control: Option<&str>) {
        let Some(close) = self.close else { return };
        let from = self.text.len().saturating_sub(close.len());
        self.text += text;
        if let Some(open) = self.open {
            if control == Some(open) || self.text.starts_with(open) {
                self.open = None;
            } else if !open.starts_with(&self.text) {
                self.close = None;
            }
            return;
        }
        let found = self.text.as_bytes()[from..].windows(close.len());
        let found = found.into_iter().position(|w| w == close.as_bytes());
        let ended = found.map(|at| from + at + close.len());
        if let Some(at) = ended.or((control == Some(close)).then_some(self.text.len())) {
            (self.begins, self.close) = (at, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(open: bool, pieces: &[(&str, Option<&str>)]) -> usize {
        let tags = Tags::of("<think>").expect("tags");
        let mut said = Said::new(Some(Thoughts { tags, open }));
        pieces.iter().for_each(|(text, control)| said.push(text, *control));
        said.begins
    }

    #[test]
    fn thoughts_end_once() {
        assert_eq!(begins(true, &[("a</th", None), ("ink>{}", None), ("</think>", None)]), 9);
        assert_eq!(begins(true, &[("a", None), ("", Some("</think>")), ("{}", None)]), 1);
        assert_eq!(begins(false, &[("<th", None), ("ink>", None), ("é</think>{", None)]), 17);
        assert_eq!(begins(false, &[("", Some("<think>")), ("a", None), ("", Some("</think>"))]), 1);
        // Without thoughts, a tag in the answer is part of it.
        assert_eq!(begins(false, &[("{\"a", None), ("</think>\"}", None)]), 0);
    }
}
