//! The hyper-parameters that nearly every decoder has, and the parts made of them.
mod converter;
pub mod delta;
pub mod encoders;
pub mod experts;
pub mod inputs;
pub mod latent;
pub mod mixers;
pub mod names;
pub mod ropes;

use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::Value;

/// More layers than any model has; a bound on what a hostile file can make us build.
const MOST_LAYERS: usize = 4096;
/// More heads than any model has; as many numbers may be held a layer.
const MOST_HEADS: usize = 4096;

/// What nearly every decoder has; families overwrite what differs.
#[derive(Clone)]
pub struct Common {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Rows of the token embedding.
    pub vocab: usize,
    /// Number of layers.
    pub layers: usize,
    /// Longest trained position.
    pub context: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements to a head.
    pub head_dim: usize,
    /// Width of the MLP.
    pub d_ff: usize,
    /// Of the norms.
    pub eps: f32,
    /// Of layers and of the end: RMS unless a family says otherwise.
    pub norm: Norm,
    /// Whether the embedding is also the head.
    pub tied: bool,
    /// The model's, or its full-attention layers', rotary table.
    pub rope: Rope,
}

impl Common {
    /// Reads it.
    ///
    /// # Errors
    /// What is missing, and what no model can have.
    pub fn read(c: &Config) -> Result<Common, ConfigError> {
        let (d_model, heads) = (c.size("hidden_size")?, c.size("num_attention_heads")?);
        if heads > MOST_HEADS {
            return Err(c.refuse("num_attention_heads", &format!("at most {MOST_HEADS}")));
        }
        let head_dim = match c.get("head_dim") {
            Some(_) => c.size("head_dim")?,
            None if d_model.is_multiple_of(heads) => d_model / heads,
            None => return Err(c.refuse("num_attention_heads", "a divisor of hidden_size")),
        };
        let layers = c.size("num_hidden_layers")?;
        if layers > MOST_LAYERS {
            return Err(c.refuse("num_hidden_layers", &format!("at most {MOST_LAYERS}")));
        }
        let kv_heads = match c.get("num_key_value_heads") {
            Some(_) => c.by_layer("num_key_value_heads", layers)?[0],
            None => heads,
        };
        if !heads.is_multiple_of(kv_heads) {
            return Err(c.refuse("num_key_value_heads", "a divisor of num_attention_heads"));
        }
        let scaling = scaling(c, "rope_scaling")?;
        let theta = c.positive_or("rope_theta", 1e4)?;
        if theta <= 1.0 {
            return Err(c.refuse("rope_theta", "a number above one"));
        }
        let rope = Rope {
            theta,
            dim: match scaling {
                Scaling::Proportional { .. } => head_dim,
                _ => rotary_dim(c, head_dim)?,
            },
            layout: RopeLayout::Halves,
            scaling,
            sections: c.sizes("rope_scaling.mrope_section")?,
        };
        check_factors(c, &rope)?;
        let eps = c.positive_or("rms_norm_eps", c.positive_or("layer_norm_eps", 1e-6)?)?;
        Ok(Common {
            d_model,
            heads,
            kv_heads,
            head_dim,
            layers,
            context: context(c, &rope.scaling)?,
            rope,
            vocab: c.size("vocab_size")?,
            d_ff: c.by_layer("intermediate_size", layers)?[0],
            eps,
            norm: Norm::rms(eps),
            tied: c.flag("tie_word_embeddings", false)?,
        })
    }
    /// The same, of an architecture whose q and k rows GGUF's converter permutes.
    pub fn permuted(mut self, c: &Config) -> Common {
        self.rope.layout = c.laid(RopeLayout::Halves, RopeLayout::Pairs);
        self
    }
    /// Leaves out the layers that predict further tokens, which are not run; GGUF counts them.
    ///
    /// # Errors
    /// What is no count.
    pub fn drop_predicting(&mut self, c: &Config) -> Result<(), ConfigError> {
        let predicting = c.pick(0, c.count_or("num_nextn_predict_layers", 0)?);
        self.layers -= predicting.min(self.layers - 1);
        Ok(())
    }
    /// The model's RMS norm.
    pub fn rms(&self) -> Norm {
        Norm::rms(self.eps)
    }
    /// Plain causal attention.
    pub fn attention(&self) -> Attention {
        Attention {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scale: inverse_root(self.head_dim as f64),
            rope: Some(RopeId(0)),
            reach: Reach::All,
            causal: true,
            qk_norm: None,
            qkv_bias: false,
            out_bias: false,
            v_norm: None,
            v_from_k: false,
            clip: None,
            out_gate: None,
            sinks: false,
            softcap: None,
            alibi: None,
            temperature: None,
            kv_from: None,
            adapter: None,
        }
    }
    /// The same, with biases where the checkpoint has them.
    ///
    /// # Errors
    /// What is no flag.
    pub fn biased(&self, c: &Config) -> Result<Attention, ConfigError> {
        let qkv_bias = c.flag("attention_bias", false)?;
        let out_bias = c.flag("attention_out_bias", qkv_bias)?;
        Ok(Attention { qkv_bias, out_bias, ..self.attention() })
    }
    /// A gated MLP.
    pub fn gated(&self, act: Act) -> Mlp {
        Mlp::gated(self.d_ff, act)
    }
    /// An MLP without a gate.
    pub fn plain(&self, act: Act, bias: bool) -> Mlp {
        Mlp { gated: false, bias, ..self.gated(act) }
    }
    /// Norms of each query and key head.
    pub fn qk_norm(&self) -> Option<QkNorm> {
        Some(QkNorm { norm: self.rms(), over: NormOver::Head, after_rope: false })
    }
    /// A decoder of pre-norm layers: an attention, then an MLP.
    pub fn decoder(&self, attentions: impl Iterator<Item = Attention>, mlp: &Mlp) -> ModelSpec {
        self.model(attentions.map(|attention| {
            vec![
                Branch::pre(self.norm, Op::Attention(attention)),
                Branch::pre(self.norm, Op::Mlp(mlp.clone())),
            ]
        }))
    }
    /// A decoder with the usual ends.
    pub fn model(&self, layers: impl Iterator<Item = Layer>) -> ModelSpec {
        ModelSpec {
            d_model: self.d_model,
            vocab: self.vocab,
            context: self.context,
            embed: Embed { scale: 1.0, types: None, positions: None, norm: None, per_layer: None },
            altup: None,
            ropes: vec![self.rope.clone()],
            layers: layers.collect(),
            final_norm: Some(self.norm),
            head: Head::Lm { tied: self.tied, bias: false, scale: 1.0, softcap: None },
        }
    }
}

/// The same, with an MLP four times as wide as the model where none is stated.
///
/// # Errors
/// If the model's width is none.
pub fn four_times(c: &Config) -> Result<Config, ConfigError> {
    let width = match c.get("intermediate_size") {
        Some(_) => return Ok(c.clone()),
        None => 4 * c.size("hidden_size")?,
    };
    Ok(c.with(serde_json::json!({"intermediate_size": width})))
}

/// ALiBi's slopes of some heads, the steepest first but that those of a power of two precede the rest:
/// `2^(-most · i / n)` for the first `n` of them, steps halfway between these for the others.
pub fn slopes(heads: usize, most: f32) -> Vec<f32> {
    let whole = 1 << heads.max(1).ilog2();
    let slope = |i: usize, of: usize| libm::exp2(-f64::from(most) * i as f64 / of as f64) as f32;
    let first = (1..=whole).map(|i| slope(i, whole));
    first.chain((0..heads - whole).map(|i| slope(2 * i + 1, 2 * whole))).collect()
}

/// `1 / √x`, rounded once.
pub fn inverse_root(x: f64) -> f32 {
    (1.0 / x.sqrt()) as f32
}

/// To the nearest of 8 bits, ties to even.
pub fn bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000)
}

/// Which layers `sliding_window_pattern` calls sliding: all but each `every`th, or another number's, and none
/// where that is zero;
/// those where a string that repeats has an L; or those of which a list says so.
///
/// # Errors
/// What is neither.
pub fn slides(c: &Config, every: usize) -> Result<Box<dyn Fn(usize) -> bool>, ConfigError> {
    let key = "sliding_window_pattern";
    Ok(match c.get(key) {
        Some(Value::String(letters)) if !letters.is_empty() => {
            let local: Vec<bool> = letters.chars().map(|l| l == 'L').collect();
            Box::new(move |i| local[i % local.len()])
        }
        Some(Value::Array(all)) => {
            let local: Option<Vec<bool>> = all.iter().map(Value::as_bool).collect();
            let layers = c.size("num_hidden_layers")?;
            let local = local.filter(|local| local.len() == layers);
            let expected = format!("{layers} of true or false");
            let local = local.ok_or_else(|| c.refuse(key, &expected))?;
            Box::new(move |i| local.get(i).is_some_and(|local| *local))
        }
        _ => {
            let every = c.count_or(key, every)?;
            Box::new(move |i| every > 0 && !(i + 1).is_multiple_of(every))
        }
    })
}

/// Which layers rotate: where `no_rope_layers` has no zero or, without it, all but each `every`th, or
/// another number's.
///
/// # Errors
/// What is no such list or number.
pub fn rotating(c: &Config, layers: usize, every: usize) -> Result<Vec<bool>, ConfigError> {
    let listed = c.sizes("no_rope_layers")?;
    let every = c.size_or("no_rope_layer_interval", every)?;
    match listed.len() {
        0 => Ok((1..=layers).map(|i| !i.is_multiple_of(every)).collect()),
        n if n == layers => Ok(listed.into_iter().map(|rotates| rotates != 0).collect()),
        _ => Err(c.refuse("no_rope_layers", &format!("{layers} numbers"))),
    }
}

/// Elements of a head that rotate, where a config counts them.
///
/// # Errors
/// What is no even number of them.
pub fn rotated(c: &Config, usual: usize, head_dim: usize) -> Result<usize, ConfigError> {
    let key = "rotary_dim";
    let dim = c.optional_size(key)?.unwrap_or(usual);
    let fits = dim <= head_dim && dim.is_multiple_of(2);
    let expected = || c.refuse(key, &format!("an even number of a head's {head_dim} elements"));
    if fits { Ok(dim) } else { Err(expected()) }
}

/// The scaling under `key`, which is `rope_scaling` or a key of the same shape.
///
/// # Errors
/// A kind that we don't know, by its name, and numbers that it can't have.
pub fn scaling(c: &Config, key: &str) -> Result<Scaling, ConfigError> {
    if c.get(key).is_some_and(|scaling| !scaling.is_object()) {
        return Err(c.refuse(key, "an object"));
    }
    let at = |name: &str| format!("{key}.{name}");
    let kind_key = if c.get(&at("rope_type")).is_some() { at("rope_type") } else { at("type") };
    let original = || {
        let own = at("original_max_position_embeddings");
        let mut keys = [&own, "original_max_position_embeddings"].into_iter();
        c.size(keys.find(|key| c.get(key).is_some()).unwrap_or("max_position_embeddings"))
    };
    let factor = || {
        let key = at("factor");
        let factor = c.positive(&key)?;
        if factor < 1.0 { Err(c.refuse(&key, "at least one")) } else { Ok(factor) }
    };
    let known = "default, linear, dynamic, proportional, llama3, yarn or longrope";
    Ok(match c.text(&kind_key)? {
        None if c.get(&at("factor")).is_some() => return Err(c.refuse(&at("rope_type"), known)),
        // The frequencies change only beyond the trained context, where no sequence goes.
        None | Some("default" | "mrope" | "dynamic") => Scaling::None,
        Some("linear") => Scaling::Linear { factor: factor()? },
        Some("proportional") => {
            let share = c.positive_or("partial_rotary_factor", 1.0)?;
            if share > 1.0 {
                return Err(c.refuse("partial_rotary_factor", "a share of one"));
            }
            Scaling::Proportional { share }
        }
        Some("factors") => Scaling::Factors(c.floats(&at("factors"))?),
        Some("llama3") => {
            let (low, high) =
                (c.positive(&at("low_freq_factor"))?, c.positive(&at("high_freq_factor"))?);
            if high <= low {
                return Err(c.refuse(&at("high_freq_factor"), "more than low_freq_factor"));
            }
            Scaling::Llama3 { factor: factor()?, low, high, original: original()? }
        }
        Some("yarn") => Scaling::Yarn {
            factor: factor()?,
            original: original()?,
            beta_fast: c.positive_or(&at("beta_fast"), 32.0)?,
            beta_slow: c.positive_or(&at("beta_slow"), 1.0)?,
            attention: yarn_attention(c, key)?,
            truncate: c.flag(&at("truncate"), true)?,
        },
        Some("longrope" | "su") => long_rope(c, key, original()?)?,
        Some(_) => return Err(c.refuse(&kind_key, known)),
    })
}

/// LongRoPE's two kinds of position.
fn long_rope(c: &Config, key: &str, original: usize) -> Result<Scaling, ConfigError> {
    let longest = c.size_or("max_position_embeddings", original)? as f64;
    let ratio = longest / original as f64;
    let usual = (1.0 + libm::log(ratio.max(1.0)) / libm::log(original.max(2) as f64)).sqrt() as f32;
    let given = c.positive_or(&format!("{key}.attention_factor"), usual)?;
    let stretch = |name: &str| {
        let attention = c.positive_or(&format!("{key}.{name}_mscale"), given)?;
        Ok(Stretch { factors: c.floats(&format!("{key}.{name}_factor"))?, attention })
    };
    Ok(Scaling::LongRope { short: stretch("short")?, long: stretch("long")?, original })
}

/// What grows with the factor that YaRN stretches a context by.
pub fn yarn_scale(factor: f32, m: f32) -> f32 {
    if factor > 1.0 { 0.1 * m * libm::logf(factor) + 1.0 } else { 1.0 }
}

/// What YaRN multiplies cosines and sines by.
fn yarn_attention(c: &Config, key: &str) -> Result<f32, ConfigError> {
    let number = |name: &str| c.float_or(&format!("{key}.{name}"), 0.0);
    let factor = number("factor")?;
    let scale = |m: f32| yarn_scale(factor, m);
    let (given, m, all) =
        (number("attention_factor")?, number("mscale")?, number("mscale_all_dim")?);
    Ok(match (given, m, all) {
        (a, ..) if a != 0.0 => a,
        (_, m, all) if m != 0.0 && all != 0.0 => scale(m) / scale(all),
        _ => scale(1.0),
    })
}

fn rotary_dim(c: &Config, head_dim: usize) -> Result<usize, ConfigError> {
    let key = "partial_rotary_factor";
    let share = c.get(key).map_or(Some(1.0), Value::as_f64);
    let dim = share.filter(|s| *s > 0.0 && *s <= 1.0).map(|s| (head_dim as f64 * s) as usize);
    dim.filter(|d| *d > 0 && d.is_multiple_of(2)).ok_or_else(|| {
        c.refuse(key, &format!("a share of head_dim, {head_dim}, that is an even number"))
    })
}

fn check_factors(c: &Config, rope: &Rope) -> Result<(), ConfigError> {
    let wrong = |by: &[f32]| by.len() != rope.dim / 2 || by.iter().any(|f| *f <= 0.0);
    let key = match &rope.scaling {
        Scaling::Factors(by) if wrong(by) => "rope_scaling.factors",
        Scaling::LongRope { short, .. } if wrong(&short.factors) => "rope_scaling.short_factor",
        Scaling::LongRope { long, .. } if wrong(&long.factors) => "rope_scaling.long_factor",
        _ => return Ok(()),
    };
    Err(c.refuse(key, &format!("{} numbers above zero", rope.dim / 2)))
}

/// The configured context, or what YaRN stretches the original one to if that is more.
fn context(c: &Config, scaling: &Scaling) -> Result<usize, ConfigError> {
    let configured = c.size_or("max_position_embeddings", 2048)?;
    Ok(match scaling {
        Scaling::Yarn { factor, original, .. } => {
            configured.max(((*original as f64 * f64::from(*factor)) as usize).min(1 << 24))
        }
        _ => configured,
    })
}
