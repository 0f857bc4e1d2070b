//! Numbers: exact decimals, their bounds and multiples, and the texts that they are written as.
use super::digits::{above, stepped};
use serde_json::{Number, json};
use std::cmp::Ordering;

/// Most digits before the point, and after it, of a number that nothing bounds.
pub(super) const MOST_DIGITS: usize = 40;
/// Decimal digits that a double holds exactly, whatever they are.
pub(super) const EXACT_DIGITS: u32 = 15;
/// Largest step that an automaton counts, in states.
const MOST_COUNTED: i128 = 4096;
const FREE: &str = concat!(
    r"-?(0|[1-9][0-9]{0,39})(\.[0-9]{1,40})?",
    r"([eE][+-]?([0-9]{1,2}|1[0-9]{2}|2[0-5][0-9]))?"
);

/// `mantissa` · 10^-`scale`, exactly.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    pub(super) mantissa: i128,
    pub(super) scale: u32,
}

impl Decimal {
    /// The number as it is written.
    ///
    /// # Errors
    /// If it is too large or fine, or a double that can't hold what was written.
    pub fn new(number: &Number) -> Result<Decimal, String> {
        let text = number.to_string();
        let far = || {
            format!("{text} is beyond what is exact: whole numbers of 64 bits and 18 decimals are")
        };
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().map_err(|_| far())?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let mut mantissa: i128 = format!("{whole}{fraction}").parse().map_err(|_| far())?;
        let mut scale = fraction.len() as i32 - exponent;
        if mantissa == 0 {
            return Ok(Decimal { mantissa, scale: 0 });
        }
        while scale < 0 {
            mantissa = mantissa.checked_mul(10).ok_or_else(far)?;
            scale += 1;
        }
        while scale > 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale -= 1;
        }
        let whole = mantissa / 10i128.checked_pow(scale as u32).ok_or_else(far)?;
        let inexact = number.is_f64()
            && whole.unsigned_abs() > 1 << 53
            && number.as_f64().is_none_or(|f| f as i128 != whole);
        if scale > 18 || whole.unsigned_abs() > 1 << 64 || inexact {
            return Err(far());
        }
        Ok(Decimal { mantissa, scale: scale as u32 })
    }
    /// A whole number.
    pub fn whole(value: i128) -> Decimal {
        Decimal { mantissa: value, scale: 0 }
    }
    /// Times 10^`scale`, which is at least its own.
    fn at(self, scale: u32) -> i128 {
        self.mantissa * 10i128.pow(scale - self.scale)
    }
    fn negated(self) -> Decimal {
        Decimal { mantissa: -self.mantissa, scale: self.scale }
    }
    /// Digits before the point and after it, without the sign.
    pub(super) fn digits(self) -> (String, String) {
        let text = format!("{:0>1$}", self.mantissa.unsigned_abs(), self.scale as usize + 1);
        let (whole, fraction) = text.split_at(text.len() - self.scale as usize);
        (whole.to_owned(), fraction.to_owned())
    }
    pub(super) fn text(self) -> String {
        let (whole, fraction) = self.digits();
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.at(scale).cmp(&other.at(scale))
    }
}
impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Decimal {}

/// A bound, which is itself excluded if `open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub at: Decimal,
    pub open: bool,
}

/// A set of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    pub integer: bool,
    pub low: Option<Bound>,
    pub high: Option<Bound>,
    pub multiple: Option<Decimal>,
}

impl Numbers {
    /// One number.
    pub fn one(value: Decimal) -> Numbers {
        let bound = Some(Bound { at: value, open: false });
        Numbers { integer: false, low: bound, high: bound, multiple: None }
    }

    /// The text of the only member, if there is but one.
    pub fn only(&self) -> Option<String> {
        let (low, high) = (self.low?, self.high?);
        (low.at == high.at).then(|| low.at.text())
    }

    /// Numbers of both sets.
    ///
    /// # Errors
    /// If their common multiple is out of range.
    pub fn and(&self, other: &Numbers) -> Result<Numbers, String> {
        let tighter = |a: Option<Bound>, b: Option<Bound>, wins: Ordering| match (a, b) {
            (Some(a), Some(b)) => Some(match a.at.cmp(&b.at) {
                Ordering::Equal => Bound { at: a.at, open: a.open || b.open },
                order if order == wins => a,
                _ => b,
            }),
            (a, b) => a.or(b),
        };
        let multiple = match (self.multiple, other.multiple) {
            (Some(a), Some(b)) => Some(common(a, b)?),
            (a, b) => a.or(b),
        };
        Ok(Numbers {
            integer: self.integer || other.integer,
            low: tighter(self.low, other.low, Ordering::Greater),
            high: tighter(self.high, other.high, Ordering::Less),
            multiple,
        })
    }

    /// The step between the members, if there is one.
    fn step(&self) -> Result<Option<Decimal>, String> {
        match (self.integer, self.multiple) {
            (true, Some(m)) => common(m, Decimal::whole(1)).map(Some),
            (true, None) => Ok(Some(Decimal::whole(1))),
            (false, m) => Ok(m),
        }
    }

    /// Whether some multiple of `step` lies within the bounds.
    fn holds(&self, step: Decimal) -> bool {
        let (Some(low), Some(high)) = (self.low, self.high) else { return true };
        let scale = low.at.scale.max(high.at.scale).max(step.scale);
        let (l, h, s) = (low.at.at(scale), high.at.at(scale), step.at(scale));
        let mut first = l.div_euclid(s) + i128::from(l.rem_euclid(s) != 0);
        if low.open && first * s == l {
            first += 1;
        }
        if high.open { first * s < h } else { first * s <= h }
    }

    /// Whether no number is in it.
    ///
    /// # Errors
    /// As [`Numbers::and`].
    pub fn is_empty(&self) -> Result<bool, String> {
        let (Some(low), Some(high)) = (self.low, self.high) else { return Ok(false) };
        let crossed = low.at > high.at || (low.at == high.at && (low.open || high.open));
        Ok(crossed || self.step()?.is_some_and(|step| !self.holds(step)))
    }

    /// What the members are written as: a part of a Lark rule or terminal.
    ///
    /// # Errors
    /// For steps that no small automaton follows, and ranges too narrow for a double's digits.
    pub fn lark(&self) -> Result<Written, String> {
        if let Some(only) = self.only() {
            return Ok(Written::Terminal(format!("/{}/", only.replace('.', r"\."))));
        }
        let step = self.step()?;
        let form = match step {
            None if self.low.is_none() && self.high.is_none() => FREE.to_owned(),
            None => return self.fractions().map(Written::Terminal),
            Some(step) => match stepped(step)? {
                Some(form) if step == Decimal::whole(1) => {
                    return Ok(Written::Terminal(self.ended().within(&form)));
                }
                Some(form) => {
                    self.reached(step)?;
                    form
                }
                None => return self.counted(step),
            },
        };
        Ok(Written::Terminal(self.within(&form)))
    }

    /// With ends where there are none: what fits 64 bits, or, where readers divide, a double.
    fn ended(&self) -> Numbers {
        let digits = if self.multiple.is_some() { EXACT_DIGITS } else { 18 };
        let most = Decimal::whole(10i128.pow(digits) - 1);
        let end = |at| Some(Bound { at, open: false });
        let (least, most) = (most.negated(), most);
        let far_low = self.high.is_some_and(|high| high.at < least);
        let far_high = self.low.is_some_and(|low| low.at > most);
        let low = if far_low { Decimal::whole(i64::MIN.into()) } else { least };
        let high = if far_high { Decimal::whole(u64::MAX.into()) } else { most };
        let (low, high) = (self.low.or(end(low)), self.high.or(end(high)));
        Numbers { low, high, ..self.clone() }
    }

    /// Refuses bounds that no multiple of few enough digits lies within.
    fn reached(&self, step: Decimal) -> Result<(), String> {
        let most = Decimal::whole(10i128.pow(EXACT_DIGITS.saturating_sub(step.scale)) - 1);
        let end = |at| Some(Bound { at, open: false });
        let far = Numbers { low: end(most.negated()), high: end(most), ..Numbers::default() };
        if self.and(&far)?.is_empty()? {
            let step = step.text();
            return Err(format!("no multiple of {step} of at most {EXACT_DIGITS} digits is in it"));
        }
        Ok(())
    }

    fn within(&self, form: &str) -> String {
        let mut all = format!("/{form}/");
        if let Some(low) = self.low {
            all += &format!(" & /{}/", above(low, false));
        }
        if let Some(high) = self.high {
            let mirrored = Bound { at: high.at.negated(), open: high.open };
            all += &format!(" & /{}/", above(mirrored, true));
        }
        all
    }

    /// Bounded numbers with fractions of as many digits as a double tells apart.
    fn fractions(&self) -> Result<String, String> {
        if let (Some(low), Some(high)) = (self.low, self.high) {
            let whole = low.at.digits().0.len().max(high.at.digits().0.len()) as u32;
            let fits = (0..=EXACT_DIGITS.saturating_sub(whole))
                .any(|f| self.holds(Decimal { mantissa: 1, scale: f }));
            if !fits {
                return Err(format!(
                    "the range from {} to {} holds no number of {EXACT_DIGITS} digits",
                    low.at.text(),
                    high.at.text()
                ));
            }
        }
        let whole = r"-?(0|[1-9][0-9]{0,39})";
        let fraction = r"-?(0|[1-9][0-9]{0,13})\.[0-9]{1,14}";
        let short = r"-?([0-9]\.?){2,15}";
        let all = |form: &str| self.within(form);
        Ok(format!("({}) | ({} & /{short}/)", all(whole), all(fraction)))
    }

    /// Multiples of whole numbers that an automaton has to count.
    fn counted(&self, step: Decimal) -> Result<Written, String> {
        let most = Decimal::whole(10i128.pow(EXACT_DIGITS) - 1);
        let end = |bound: Option<Bound>, sign: i128| -> Result<i64, String> {
            let Some(bound) = bound else { return Ok((sign * most.mantissa) as i64) };
            let scale = 10i128.pow(bound.at.scale);
            let (at, exact) = (bound.at.mantissa, bound.at.mantissa % scale == 0);
            let inwards = if sign < 0 {
                at.div_euclid(scale) + i128::from(!exact || bound.open)
            } else {
                at.div_euclid(scale) - i128::from(exact && bound.open)
            };
            if inwards.abs() > most.mantissa {
                return Err(format!("multiples are counted within ±{}", most.text()));
            }
            Ok(inwards as i64)
        };
        let (low, high) = (end(self.low, -1)?, end(self.high, 1)?);
        let step = step.mantissa;
        if step > MOST_COUNTED {
            return Err(format!(
                "multiples of {step} are not supported: up to {MOST_COUNTED}, and beyond it of \
                 numbers that are zeros after a divisor of 1000, are"
            ));
        }
        // Apart by sign: zero has none.
        let (low, high) = (i128::from(low), i128::from(high));
        let parts = [(low, high.min(-1)), (low.max(0), high)];
        let parts = parts.into_iter().filter(|(low, high)| high.div_euclid(step) * step >= *low);
        let parts = parts.map(|(low, high)| {
            let (step, low, high) = (step as i64, low as i64, high as i64);
            let part =
                json!({"type": "integer", "multipleOf": step, "minimum": low, "maximum": high});
            format!("%json {part}")
        });
        Ok(Written::Rule(parts.collect::<Vec<_>>().join(" | ")))
    }
}

/// A part of a grammar.
pub enum Written {
    /// May be a part of a terminal.
    Terminal(String),
    /// Stands in a rule only.
    Rule(String),
}

/// The least common multiple.
fn common(a: Decimal, b: Decimal) -> Result<Decimal, String> {
    let scale = a.scale.max(b.scale);
    let (x, y) = (a.at(scale), b.at(scale));
    let (mut g, mut r) = (x, y);
    while r != 0 {
        (g, r) = (r, g % r);
    }
    let far = || "the common multiple is out of range".to_owned();
    let mut mantissa = (x / g).checked_mul(y).filter(|m| *m < 1 << 100).ok_or_else(far)?;
    let mut scale = scale;
    while scale > 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        scale -= 1;
    }
    Ok(Decimal { mantissa, scale })
}
