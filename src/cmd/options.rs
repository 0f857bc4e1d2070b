//! Flags that several commands have: how a model is loaded, and how tokens are chosen.
use super::{Environment, Usage};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use rinfer_engine::backend;
use rinfer_engine::batch::TokenId;
use rinfer_engine::load::Load;
use rinfer_engine::lora::Adapter;
use rinfer_engine::sample::{Sampling, Think};
use rinfer_grammar::{Grammar, Spacing};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// How a model is loaded.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Loading")]
pub struct Loading {
    /// Tokens of prompt and answer together [default: the model's, at most 4096]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub context: Option<usize>,
    /// Threads [default: physical cores within affinity and quota]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,
    /// Bytes that the model may take, or such as 512M or 4G [default: what is available]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<usize>,
    /// Precision of cached keys and values
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
    /// Precision of weights
    #[arg(long, value_name = "QUANT", default_value = "native", value_parser = quant())]
    pub quant: backend::Quant,
    /// A LoRA adapter to merge into the weights, a folder of PEFT's or a GGUF file of llama.cpp's, and how
    /// much of it; may be repeated
    #[arg(long, value_name = "PATH[=SCALE]", value_parser = adapter)]
    pub adapter: Vec<Adapter>,
}

/// `--kv`
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Kv {
    /// Half precision
    F16,
    /// Exact
    F32,
    /// 8 bits: half the memory, and faster over long contexts
    Q8,
}

/// `--adapter`: what follows a last `=` is a scale if it is a number.
pub fn adapter(text: &str) -> Result<Adapter, String> {
    let (path, scale) = text
        .rsplit_once('=')
        .and_then(|(path, scale)| Some((path, scale.parse::<f32>().ok()?)))
        .unwrap_or((text, 1.0));
    if path.is_empty() || !scale.is_finite() {
        return Err("give an adapter's folder or file, and a finite scale after `=`".into());
    }
    Ok(Adapter { path: path.into(), scale })
}

/// `--quant`
pub fn quant() -> impl TypedValueParser<Value = backend::Quant> {
    let value = |(name, help, _)| PossibleValue::new(name).help(help);
    let values = PossibleValuesParser::new(backend::Quant::all().map(value));
    values.map(|name| {
        backend::Quant::all().find(|q| q.0 == name).map_or(backend::Quant::Native, |q| q.2)
    })
}

impl Loading {
    /// As the library takes it.
    pub fn load(&self, env: &Environment) -> Load {
        Load {
            context: self.context,
            threads: self.threads,
            memory: self.memory,
            kv: match self.kv {
                Kv::F16 => backend::Kv::F16,
                Kv::F32 => backend::Kv::F32,
                Kv::Q8 => backend::Kv::Q8,
            },
            quant: self.quant,
            adapters: self.adapter.clone(),
            tier: env.tier.clone(),
            clock: env.clock,
            ..Load::default()
        }
    }
}

/// How tokens are chosen. What is not given is the model's default, or else the library's.
#[derive(clap::Args, Debug, Default, Clone)]
#[command(next_help_heading = "Sampling")]
pub struct Sampler {
    /// 0 always takes the most probable token
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Keep this many of the most probable tokens; 0 keeps all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Keep the most probable tokens up to this probability together; 1 keeps all
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Keep tokens at least this fraction as probable as the best; 0 keeps all
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Make tokens of the last N less probable; 1 is off
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub repeat_penalty: Option<f32>,
    /// The N of the repeat penalty: over prompt and answer
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub repeat_last_n: Option<usize>,
    /// Make tokens that the answer has less probable; 0 is off
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub presence_penalty: Option<f32>,
    /// The same, once for each occurrence; 0 is off
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub frequency_penalty: Option<f32>,
    /// The same seed gives the same answer [default: drawn anew]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Tokens of the answer [default: up to the end of the context]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_tokens: Option<usize>,
    /// A text that ends the answer; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Add BIAS to a token's logit, `-inf` to ban it; may be repeated
    #[arg(long, value_name = "ID=BIAS", value_parser = bias, allow_hyphen_values = true)]
    pub logit_bias: Vec<(u32, f32)>,
    /// Whether the model thinks before it answers: as its template has it, or asked to, or not to
    #[arg(long, value_name = "auto|on|off", value_parser = think)]
    pub think: Option<Think>,
    /// Tokens of thoughts before the answer is to begin [default: any number]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub think_budget: Option<usize>,
    /// The answer is a JSON object
    #[arg(long, group = "form")]
    pub json_object: bool,
    /// The answer is JSON that satisfies the JSON Schema in FILE
    #[arg(long, value_name = "FILE", group = "form")]
    pub schema: Option<String>,
    /// The answer is a text that this regular expression matches, from start to end
    #[arg(long, value_name = "REGEX", group = "form")]
    pub regex: Option<String>,
    /// The answer is this text, or one of several: may be repeated
    #[arg(long, value_name = "TEXT", group = "form")]
    pub choice: Vec<String>,
    /// The answer is of the grammar in FILE: GBNF if it defines rules with ::=, else Lark
    #[arg(long, value_name = "FILE", group = "form")]
    pub grammar: Option<String>,
}

impl Sampler {
    /// Replaces what was given.
    pub fn apply(&self, s: &mut Sampling) {
        fn set<T: Copy>(to: &mut T, given: Option<T>) {
            *to = given.unwrap_or(*to);
        }
        set(&mut s.temperature, self.temperature);
        set(&mut s.top_k, self.top_k);
        set(&mut s.top_p, self.top_p);
        set(&mut s.min_p, self.min_p);
        set(&mut s.repeat_penalty, self.repeat_penalty);
        set(&mut s.repeat_last_n, self.repeat_last_n);
        set(&mut s.presence_penalty, self.presence_penalty);
        set(&mut s.frequency_penalty, self.frequency_penalty);
        set(&mut s.seed, self.seed);
        set(&mut s.think, self.think);
        s.think_budget = self.think_budget.or(s.think_budget);
        s.max_tokens = self.max_tokens.or(s.max_tokens);
        s.stop.extend(self.stop.iter().cloned());
        s.logit_bias.extend(self.logit_bias.iter().map(|(id, bias)| (TokenId(*id), *bias)));
    }
    /// What the answer may be, if anything is said about it.
    ///
    /// # Errors
    /// A file that can't be read, or a schema that is not JSON.
    pub fn form(&self) -> Result<Option<Arc<Grammar>>, Usage> {
        let read = |path: &String| {
            std::fs::read_to_string(path).map_err(|e| Usage(format!("{path}: {e}")))
        };
        let grammar = if self.json_object {
            Grammar::Object(Spacing::default())
        } else if let Some(path) = &self.schema {
            Grammar::schema(&read(path)?).map_err(|e| Usage(format!("{path}: {e}")))?
        } else if let Some(regex) = &self.regex {
            Grammar::Regex(regex.clone())
        } else if !self.choice.is_empty() {
            Grammar::Choice(self.choice.clone())
        } else if let Some(path) = &self.grammar {
            let text = read(path)?;
            if text.contains("::=") { Grammar::Gbnf(text) } else { Grammar::Lark(text) }
        } else {
            return Ok(None);
        };
        Ok(Some(Arc::new(grammar)))
    }

    /// Refuses what no model could be asked, before one is loaded.
    pub fn check(&self) -> Result<(), Usage> {
        let mut s = Sampling::default();
        self.apply(&mut s);
        s.check(usize::MAX).map_err(|e| Usage(e.to_string()))
    }
}

/// One line for `/params` and `--verbose`: what is in force.
pub fn describe(s: &Sampling) -> String {
    let mut text = format!(
        "temperature {}, top-k {}, top-p {}, min-p {}, repeat-penalty {} over {}, \
         presence-penalty {}, frequency-penalty {}, seed {}",
        s.temperature,
        s.top_k,
        s.top_p,
        s.min_p,
        s.repeat_penalty,
        s.repeat_last_n,
        s.presence_penalty,
        s.frequency_penalty,
        s.seed
    );
    if let Some(n) = s.max_tokens {
        text += &format!(", max-tokens {n}");
    }
    match s.think {
        Think::Auto => {}
        Think::On => text += ", think on",
        Think::Off => text += ", think off",
    }
    if let Some(n) = s.think_budget {
        text += &format!(", think-budget {n}");
    }
    s.stop.iter().for_each(|stop| text += &format!(", stop {stop:?}"));
    s.logit_bias.iter().for_each(|(id, bias)| text += &format!(", logit-bias {}={bias}", id.0));
    text
}

/// A count of at least one.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more".into()),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}")),
    }
}

/// Bytes, or a number of larger units, which are powers of 1024.
pub fn bytes(text: &str) -> Result<usize, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[number.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err("expected bytes, or such as 512M, 4G or 1.5GiB".into()),
    };
    let count: f64 = number.parse().map_err(|_| format!("'{number}' is no number"))?;
    let bytes = count * 2f64.powi(shift);
    if !(1.0..=1e18).contains(&bytes) {
        return Err("expected 1 byte or more, and no more than there are".into());
    }
    Ok(bytes as usize)
}

fn think(text: &str) -> Result<Think, String> {
    match text {
        "auto" => Ok(Think::Auto),
        "on" => Ok(Think::On),
        "off" => Ok(Think::Off),
        _ => Err("expected auto, on or off".into()),
    }
}

/// `--logit-bias`
pub fn bias(text: &str) -> Result<(u32, f32), String> {
    let (id, bias) = text.split_once('=').ok_or("expected ID=BIAS, such as 42=-1.5")?;
    let id = id.parse().map_err(|e| format!("'{id}' is no token id: {e}"))?;
    Ok((id, bias.parse().map_err(|e| format!("'{bias}' is no number: {e}"))?))
}

/// A seed for an answer that need not be repeated: shown by `--verbose`, so that it can be.
pub fn draw_seed() -> u64 {
    u64::from(RandomState::new().hash_one(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_units() {
        let check = |text: &str, expect: Option<usize>| {
            assert_eq!(bytes(text).ok(), expect, "{text}");
        };
        check("1", Some(1));
        check("123456789", Some(123_456_789));
        check("64b", Some(64));
        check("4G", Some(4 << 30));
        check("512M", Some(512 << 20));
        check("512MiB", Some(512 << 20));
        check("1.5g", Some(3 << 29));
        check("2k", Some(2048));
        check("1T", Some(1 << 40));
        for wrong in
            ["", "G", "0", "-1", "0.1", "4GB", "4 G", "1e400", "nan", "inf", "4X", "G4", "9999999T"]
        {
            check(wrong, None);
        }
    }
}
