//! `truncation: "auto"`: a conversation that is too long is told without its oldest turns, if the request
//! asks for that. What the model is told first and the last turn stay.
use crate::fields::{Field, Fields, field};
use crate::models::Served;
use crate::refusal::Refusal;
use rinfer_engine::sample::Sampling;
use rinfer_engine::turn::Ask;
use rinfer_text::chat::{Message, Role};

/// What asks for it.
pub const TRUNCATION: Field = field(
    "truncation",
    r#"{"type": "string", "enum": ["auto", "disabled"]}"#,
    "auto: the oldest turns of a conversation that is too long are left out, and how many messages is told",
);

/// Whether a conversation may be told in part.
pub struct Shorten(bool);

/// Reads [`TRUNCATION`].
pub fn read(fields: &mut Fields) -> Result<Shorten, Refusal> {
    match fields.text("truncation")?.as_deref() {
        None | Some("disabled") => Ok(Shorten(false)),
        Some("auto") => Ok(Shorten(true)),
        Some(other) => {
            let text = format!("'{other}' is neither auto nor disabled");
            Err(Refusal::field(fields.path("truncation"), text))
        }
    }
}

impl Shorten {
    /// Leaves out the fewest of the oldest turns such that an answer has room, if that is asked for, and
    /// says how many messages these were. A conversation whose last turn alone is too long is left as it
    /// is, and refused as any is.
    pub fn fit(
        self,
        served: &Served,
        ask: &mut Ask,
        sampling: &Sampling,
    ) -> Result<usize, Refusal> {
        if !self.0 {
            return Ok(0);
        }
        let context = served.model.limits().context;
        // What the answer may have, but at most half of the context, and a quarter if nobody says.
        let answer = sampling.max_tokens.unwrap_or(context / 4).clamp(1, (context / 2).max(1));
        let whole = ask.messages.clone();
        let told = whole.iter().take_while(|m| is_told(m)).count();
        let turns: Vec<usize> =
            (told..whole.len()).filter(|i| whole[*i].role == Role::User).collect();
        let without = |turn: usize| -> Vec<Message> {
            let start = if turn == 0 { told } else { turns[turn] };
            whole[..told].iter().chain(&whole[start..]).cloned().collect()
        };
        let mut fits = |turn: usize| -> Result<bool, Refusal> {
            ask.messages = without(turn);
            let (prompt, _) = served.model.prompt(ask, sampling.think)?;
            Ok(prompt.len() + answer <= context)
        };
        // The first that fits; a shorter conversation fits if a longer one does.
        let (mut low, mut high) = (0, turns.len().saturating_sub(1));
        while low < high {
            let middle = low.midpoint(high);
            if fits(middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        ask.messages = without(low);
        Ok(whole.len() - ask.messages.len())
    }
}

fn is_told(message: &Message) -> bool {
    matches!(message.role, Role::System | Role::Developer)
}
