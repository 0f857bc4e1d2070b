//! A constraint that begins after a text: an answer is held to its form where its thoughts end.
//!
//! Before that text anything may come but the end. Tokens in which the text ends and something else
//! follows are excluded, so the form begins with a token of its own.
use crate::{Constraint, GrammarError, Vocabulary};
use toktrie::TokTrie;

/// Holds an answer to `C` after a closing text.
pub struct After<C> {
    inner: C,
    vocabulary: Vocabulary,
    /// The closing text as a token, if it is a control token: text that spells it is then text.
    token: Option<u32>,
    text: Vec<u8>,
    /// What is written where thoughts have gone on for long enough.
    closing: Vec<u32>,
    budget: usize,
    /// Tokens that may end the closing text and go on.
    crossing: Vec<u32>,
    /// What may be written first instead of the form, so that it comes after the closing text.
    opening: Vec<u32>,
    before: Vec<u32>,
    /// Whether `inner` has taken all that came before: as long as that begins both the opening text and
    /// the form.
    both: bool,
    /// Tokens since the closing text, once it has come, or since the beginning without an opening one.
    after: Option<usize>,
    /// How many of those, from the beginning, are the opening text's too.
    shared: usize,
}

impl<C: Constraint> After<C> {
    /// Begins `inner` after `close`, the name of a control token or else a text. After `budget` tokens
    /// without it, it must come.
    ///
    /// # Errors
    /// If `close` is empty.
    pub fn new(
        inner: C,
        vocabulary: &Vocabulary,
        close: &str,
        budget: Option<usize>,
    ) -> Result<After<C>, GrammarError> {
        let Some(last) = close.bytes().next_back() else {
            let what = "the text after which the form begins is empty: leave it out".to_owned();
            return Err(GrammarError::Vocabulary(what));
        };
        let token = vocabulary.control(close);
        let goes_on = |bytes: &[u8]| {
            let mut rest = bytes;
            while let Some(at) = rest.iter().position(|b| *b == last) {
                rest = &rest[at + 1..];
                if !blank(rest) {
                    return true;
                }
            }
            false
        };
        let text = |id: &u32| vocabulary.text(*id).is_some_and(goes_on);
        Ok(After {
            inner,
            vocabulary: vocabulary.clone(),
            token,
            text: close.as_bytes().to_vec(),
            closing: token.map_or_else(|| vocabulary.tokens(close), |id| vec![id]),
            budget: budget.unwrap_or(usize::MAX),
            crossing: if token.is_some() {
                Vec::new()
            } else {
                (0..vocabulary.len() as u32).filter(text).collect()
            },
            opening: Vec::new(),
            before: Vec::new(),
            both: false,
            after: None,
            shared: 0,
        })
    }

    /// Begins `inner` at once, unless the answer begins with `open`, a token or a text.
    pub fn or_at_once(mut self, open: &str) -> After<C> {
        let token = self.vocabulary.control(open);
        self.opening = token.map_or_else(|| self.vocabulary.tokens(open), |id| vec![id]);
        self.both = !self.opening.is_empty();
        self
    }

    /// The next token of the opening text, where the answer may still begin with that or with its form.
    fn undecided(&self) -> Option<u32> {
        let open = self.opening.get(self.before.len()).copied();
        open.filter(|_| self.both && self.after.is_none())
    }

    /// Takes a token where both may begin; `open` is the opening text's.
    fn decide(&mut self, open: u32, id: u32) -> Result<(), GrammarError> {
        if id != open {
            self.inner.accept(id)?;
            self.shared = self.before.len();
            self.after = Some(self.shared + 1);
            self.before.clear();
            return Ok(());
        }
        let mut allowed = vec![0.0; self.vocabulary.len()];
        self.inner.mask(&mut allowed)?;
        let allowed = allowed.get(id as usize).is_some_and(|logit| logit.is_finite());
        self.before.push(id);
        if allowed && self.before.len() < self.opening.len() {
            return self.inner.accept(id);
        }
        // It is the opening text: the form has yet to begin.
        self.both = false;
        let taken = self.before.len() - 1;
        if taken > 0 { self.inner.rollback(taken) } else { Ok(()) }
    }

    /// What is left of the opening text, or of the closing one where it must come.
    fn due(&self) -> &[u32] {
        if let Some(rest @ [_, ..]) = self.opening.get(self.before.len()..) {
            return rest;
        }
        let thoughts = self.before.len() - self.opening.len();
        let written = thoughts.checked_sub(self.budget);
        written.map_or(&[], |n| self.closing.get(n..).unwrap_or_default())
    }

    /// The end of what came before, as far as a beginning of the closing text may be in it.
    fn heard(&self) -> Vec<u8> {
        let keep = self.text.len() - 1;
        let mut heard: Vec<u8> = Vec::new();
        for id in self.before.iter().rev().take_while(|_| self.token.is_none()) {
            if heard.len() >= keep {
                break;
            }
            heard.splice(..0, self.vocabulary.text(*id).unwrap_or_default().iter().copied());
        }
        heard.split_off(heard.len().saturating_sub(keep))
    }

    /// What follows the closing text in `id`, after what was `heard`, if it ends in that token.
    fn rest(&self, heard: &[u8], id: u32) -> Option<Vec<u8>> {
        if self.token.is_some() {
            return (self.token == Some(id)).then(Vec::new);
        }
        let mut all = [heard, self.vocabulary.text(id)?].concat();
        let at = all.windows(self.text.len()).position(|w| w == self.text)?;
        Some(all.split_off(at + self.text.len()))
    }
}

fn blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

impl<C: Constraint> Constraint for After<C> {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), GrammarError> {
        if self.after.is_some() {
            return self.inner.mask(logits);
        }
        if let Some(open) = self.undecided() {
            let liked = logits.get(open as usize).copied();
            self.inner.mask(logits)?;
            if let (Some(liked), Some(logit)) = (liked, logits.get_mut(open as usize)) {
                *logit = liked;
            }
            return Ok(());
        }
        let mut exclude = |id: u32| {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        };
        if let Some(next) = self.due().first() {
            let next = *next;
            (0..logits.len() as u32).filter(|id| *id != next).for_each(|id| {
                logits[id as usize] = f32::NEG_INFINITY;
            });
            return Ok(());
        }
        self.vocabulary.ends().iter().for_each(|id| exclude(*id));
        let heard = self.heard();
        let goes_on = |id: &&u32| self.rest(&heard, **id).is_some_and(|rest| !blank(&rest));
        self.crossing.iter().filter(goes_on).for_each(|id| exclude(*id));
        Ok(())
    }

    fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        if let Some(open) = self.undecided() {
            return self.decide(open, id);
        }
        if let Some(after) = &mut self.after {
            self.inner.accept(id)?;
            *after += 1;
            return Ok(());
        }
        if self.vocabulary.ends().contains(&id) {
            return Err(GrammarError::Matcher("it ended before its form began".to_owned()));
        }
        match self.rest(&self.heard(), id) {
            Some(rest) if !blank(&rest) => {
                return Err(GrammarError::Matcher("its form begins inside a token".to_owned()));
            }
            rest => self.after = rest.map(|_| 0),
        }
        self.before.push(id);
        Ok(())
    }

    fn complete(&mut self) -> bool {
        self.after.is_some() && self.inner.complete()
    }

    fn over(&mut self) -> bool {
        self.after.is_some() && self.inner.over()
    }

    fn forced(&mut self) -> Vec<u32> {
        match (self.after, self.undecided()) {
            (Some(_), _) => self.inner.forced(),
            (None, Some(_)) => Vec::new(),
            (None, None) => self.due().to_vec(),
        }
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), GrammarError> {
        let after = self.after.unwrap_or(0);
        let (inner, outer) = (tokens.min(after), tokens.saturating_sub(after));
        if outer > self.before.len() {
            return Err(GrammarError::Matcher(format!("it can't take back {tokens} tokens")));
        }
        if inner > 0 {
            self.inner.rollback(inner)?;
        }
        let left = after - inner;
        if self.after.is_some() && self.before.is_empty() {
            // It began with its form: perhaps back to where that was not clear yet.
            self.after = Some(left).filter(|left| *left > self.shared);
            if self.after.is_none() {
                self.before.extend_from_slice(&self.opening[..left]);
                self.both = true;
            }
            return Ok(());
        }
        if outer == 0 {
            self.after = self.after.map(|_| left);
            return Ok(());
        }
        self.after = None;
        self.before.truncate(self.before.len() - outer);
        if self.both {
            return self.inner.rollback(outer);
        }
        if self.before.len() < self.opening.len() {
            self.both = true;
            let again = std::mem::take(&mut self.before);
            return again.into_iter().try_for_each(|id| self.accept(id));
        }
        Ok(())
    }
}

impl Vocabulary {
    /// A token's bytes, if it is text.
    fn text(&self, id: u32) -> Option<&[u8]> {
        let bytes = self.trie().token(id);
        (bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER)).then_some(bytes)
    }

    /// The control token of this name.
    fn control(&self, name: &str) -> Option<u32> {
        let word = [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
        self.trie().token_id(&word)
    }
}
