//! What a request may ask of the sampler, and what is refused.
use crate::batch::TokenId;
use rinfer_grammar::Grammar;
use std::sync::Arc;

/// How tokens are chosen and when an answer ends. Plain data; checked when a request is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 (or less than 1e-5) takes the most probable token, the lowest id among equals.
    pub temperature: f32,
    /// Keeps this many of the most probable tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most probable tokens until their probabilities reach this sum; 1 keeps all.
    /// Holtzman et al. 2019, arXiv:1904.09751.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as probable as the best; 0 keeps all.
    /// Nguyen et al. 2024, arXiv:2407.01082.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens among the last `repeat_last_n`
    /// of prompt and output together; 1 is off. Keskar et al. 2019, arXiv:1909.05858.
    pub repeat_penalty: f32,
    /// The window of `repeat_penalty`, in tokens; 0 is off.
    pub repeat_last_n: usize,
    /// Subtracted from the logits of tokens that the output has, once a token; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted from the logits of tokens that the output has, once an occurrence; 0 is off.
    pub frequency_penalty: f32,
    /// Added to logits; negative infinity bans a token.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// The same seed gives the same text.
    pub seed: u64,
    /// Tokens of output; none is up to the context's end.
    pub max_tokens: Option<usize>,
    /// Texts that end the answer and are not part of it.
    pub stop: Vec<String>,
    /// What the answer may be; none is anything.
    pub grammar: Option<Arc<Grammar>>,
    /// Whether the model is to think before it answers a conversation.
    pub think: Think,
    /// Whether the answer goes on from what earlier requests computed of the same tokens, and leaves what it
    /// computes to later ones. That changes how long it takes, never what it is.
    pub cache_prompt: bool,
    /// Most tokens of thoughts, whose end is then written for the model; none is any number.
    pub think_budget: Option<usize>,
}

/// Whether a model is to think before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Think {
    /// As its template has it.
    #[default]
    Auto,
    /// Yes, where the template lets one ask for it.
    On,
    /// No: the template is asked for none, and thoughts that begin all the same are ended at once.
    Off,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            max_tokens: None,
            stop: Vec::new(),
            grammar: None,
            think: Think::Auto,
            cache_prompt: true,
            think_budget: None,
        }
    }
}

/// A field of [`Sampling`] that is out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field} is {found}: allowed is {allowed}")]
#[non_exhaustive]
pub struct SamplingError {
    /// As the field is called here and in requests.
    pub field: &'static str,
    /// As given.
    pub found: String,
    /// In words.
    pub allowed: String,
}

impl Sampling {
    /// The most probable token at every step.
    pub fn greedy() -> Sampling {
        Sampling { temperature: 0.0, ..Sampling::default() }
    }

    /// Whether a vocabulary of `vocab` tokens can be sampled this way.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn check(&self, vocab: usize) -> Result<(), SamplingError> {
        let finite = "a finite number";
        let zero_up = "a finite number, 0 or more";
        let unit = "a number from 0 to 1";
        let range = |field, found: f32, ok: bool, allowed: &str| {
            let error =
                || SamplingError { field, found: found.to_string(), allowed: allowed.into() };
            if ok && !found.is_nan() { Ok(()) } else { Err(error()) }
        };
        let t = self.temperature;
        range("temperature", t, t.is_finite() && t >= 0.0, zero_up)?;
        range("top_p", self.top_p, (0.0..=1.0).contains(&self.top_p), unit)?;
        range("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), unit)?;
        let r = self.repeat_penalty;
        range("repeat_penalty", r, r.is_finite() && r > 0.0, "a finite number above 0")?;
        let (p, f) = (self.presence_penalty, self.frequency_penalty);
        range("presence_penalty", p, p.is_finite(), finite)?;
        range("frequency_penalty", f, f.is_finite(), finite)?;
        for (id, bias) in &self.logit_bias {
            let ok = bias.is_finite() || *bias == f32::NEG_INFINITY;
            range("logit_bias", *bias, ok, "finite numbers, or -inf to ban a token")?;
            if id.0 as usize >= vocab {
                let found = format!("for token {}", id.0);
                let allowed = format!("token ids below {vocab}");
                return Err(SamplingError { field: "logit_bias", found, allowed });
            }
        }
        if self.max_tokens == Some(0) {
            range("max_tokens", 0.0, false, "1 or more")?;
        }
        if self.stop.iter().any(String::is_empty) {
            let (found, allowed) =
                ("an empty string".into(), "strings of at least one byte".into());
            return Err(SamplingError { field: "stop", found, allowed });
        }
        Ok(())
    }
}
