//! How long a model that nobody uses stays loaded: `keep_alive`, as ollama has it.
use crate::fields::{Fields, expected};
use crate::refusal::Refusal;
use serde_json::Value;
use std::str::FromStr;
use std::time::Duration;

const WHAT: &str = "seconds, or a time such as \"5m\"; below 0 is for ever";
/// Longer is for ever.
const MOST: f64 = 1e9;

/// How long a model that nobody uses stays loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Until its memory is needed.
    Forever,
    /// So long after its last answer.
    For(Duration),
}

impl Keep {
    fn seconds(seconds: f64) -> Keep {
        match seconds {
            0.0..MOST => Keep::For(Duration::from_secs_f64(seconds)),
            _ => Keep::Forever,
        }
    }
    /// What a request says.
    pub(crate) fn read(fields: &mut Fields) -> Result<Option<Keep>, Refusal> {
        let Some(value) = fields.value("keep_alive") else { return Ok(None) };
        let keep = match &value {
            Value::Number(number) => number.as_f64().map(Keep::seconds),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        keep.map(Some).ok_or_else(|| expected("keep_alive", WHAT, &value))
    }
}

/// Seconds, or numbers with units, one after another: `90`, `-1`, `1h30m`, `1.5s`, `500ms`.
impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Keep, String> {
        let wrong = || format!("'{text}' is none of {WHAT}");
        if let Ok(seconds) = text.parse::<f64>() {
            return if seconds.is_finite() { Ok(Keep::seconds(seconds)) } else { Err(wrong()) };
        }
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix('-').unwrap_or(text);
        if rest.is_empty() {
            return Err(wrong());
        }
        let mut sum = 0.0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let units =
                [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
            let (unit, scale) =
                units.into_iter().find(|(unit, _)| rest.starts_with(unit)).ok_or_else(wrong)?;
            rest = &rest[unit.len()..];
            sum += number * scale;
        }
        Ok(Keep::seconds(if negative { -sum.max(1.0) } else { sum }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a11_times() {
        let check = |text: &str, expected: Option<Keep>| {
            assert_eq!(text.parse::<Keep>().ok(), expected, "{text}");
        };
        let ms = |ms| Some(Keep::For(Duration::from_millis(ms)));
        check("0", ms(0));
        check("0s", ms(0));
        check("90", ms(90_000));
        check("5m", ms(300_000));
        check("1h30m", ms(5_400_000));
        check("1.5s", ms(1_500));
        check("500ms", ms(500));
        check("-1", Some(Keep::Forever));
        check("-1m", Some(Keep::Forever));
        check("-0s", Some(Keep::Forever));
        check("99999999999h", Some(Keep::Forever));
        for wrong in ["", "m", "5 m", "5x", "5m3", "nan", "inf", "1..2s", "5M", "--1"] {
            check(wrong, None);
        }
    }
}
