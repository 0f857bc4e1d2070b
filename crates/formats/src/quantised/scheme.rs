//! What `quantization_config` says, or refuses by its key.
use crate::error::{Cause, Error};
use crate::hf::{json, read as read_file};
use serde_json::Value;
use std::path::Path;

/// How a folder's matrices are stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scheme {
    /// Frantar et al. 2022, arXiv:2210.17323.
    Gptq(Gptq),
    /// Lin et al. 2023, arXiv:2306.00978: 4 bits, as AutoAWQ's GEMM kernels read them.
    Awq {
        /// Inputs to a scale; none for all.
        group: Option<usize>,
    },
    /// 8-bit floats E4M3.
    Fp8 {
        /// Rows and columns to a scale, where `weight_scale_inv` has them.
        block: Option<[usize; 2]>,
    },
    /// compressed-tensors, each matrix by its own tensors.
    Compressed {
        /// That integers have.
        bits: Vec<usize>,
    },
    /// bitsandbytes' 4-bit types.
    Nf4,
    /// 4-bit floats with a power of two for each 32: experts of gpt-oss.
    Mxfp4,
}

/// Of GPTQ.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gptq {
    /// To a code.
    pub bits: usize,
    /// Inputs to a scale; none for all.
    pub group: Option<usize>,
    /// What stored zeros are short of: 1 in the first version of the format.
    pub short: u32,
    /// Whether matrices have bits and groups of their own.
    pub varied: bool,
}

/// Where older folders keep what config.json lacks.
const SIDE_FILES: [&str; 2] = ["quantize_config.json", "quant_config.json"];
const METHODS: [&str; 6] = ["gptq", "awq", "fp8", "mxfp4", "compressed-tensors", "bitsandbytes"];

/// The scheme of the folder at `path`, if it is quantised.
///
/// # Errors
/// What is not known, or contradicts itself.
pub(super) fn read(path: &Path, config: &Value) -> Result<Option<Scheme>, Error> {
    let nested = || config.get("text_config")?.get("quantization_config");
    let inner = config.get("quantization_config").or_else(nested).filter(|v| !v.is_null());
    let mut side = None;
    for name in SIDE_FILES {
        if let Some(bytes) = read_file(path, name)? {
            let file = path.join(name);
            side = Some((json(&file, &bytes)?, file));
            break;
        }
    }
    let file = path.join("config.json");
    let (found, within, file) = match (&inner, &side) {
        (Some(inner), _) => (*inner, "quantization_config.", &file),
        (None, Some((side, file))) => (side, "", file),
        (None, None) => return Ok(None),
    };
    let keys = Keys { json: found, within };
    let scheme = keys.scheme().map_err(|cause| Error::at(file, cause))?;
    if let (Some(inner), Some((side, file))) = (inner, &side) {
        agree(inner, side).map_err(|cause| Error::at(file, cause))?;
    }
    Ok(Some(scheme))
}

/// Refuses a side file that contradicts config.json.
fn agree(inner: &Value, side: &Value) -> Result<(), Cause> {
    for key in ["bits", "group_size", "checkpoint_format", "quant_method"] {
        let of = |json: &Value| json.get(key).filter(|v| !v.is_null()).cloned();
        if let (Some(a), Some(b)) = (of(inner), of(side))
            && a != b
        {
            let known = format!("{a}, as quantization_config of config.json has it");
            return Err(Cause::Scheme { key: key.to_owned(), found: b.to_string(), known });
        }
    }
    Ok(())
}

/// The keys of a scheme.
struct Keys<'a> {
    json: &'a Value,
    /// What a key's name begins with in messages.
    within: &'static str,
}

impl Keys<'_> {
    fn scheme(&self) -> Result<Scheme, Cause> {
        match self.text("quant_method")?.as_deref() {
            Some("gptq") => self.gptq().map(Scheme::Gptq),
            Some("awq") => self.awq(),
            Some("fp8") => self.fp8(),
            Some("mxfp4") => Ok(Scheme::Mxfp4),
            Some("compressed-tensors") => self.compressed(),
            Some("bitsandbytes") => {
                self.not("load_in_8bit", "false, with load_in_4bit")?;
                self.one_of("bnb_4bit_quant_type", &["nf4", "fp4"])?;
                Ok(Scheme::Nf4)
            }
            // AutoAWQ's own file has its own names, AutoGPTQ's first ones had no method.
            None if self.get("w_bit").is_some() => self.awq(),
            None if self.within.is_empty() => self.gptq().map(Scheme::Gptq),
            _ => Err(self.refuse("quant_method", &METHODS.join(", "))),
        }
    }

    fn gptq(&self) -> Result<Gptq, Cause> {
        let format = self.text("checkpoint_format")?;
        let short = match format.as_deref() {
            None | Some("gptq") => 1,
            Some("gptq_v2") => 0,
            Some(_) => return Err(self.refuse("checkpoint_format", "gptq, gptq_v2")),
        };
        self.not("is_marlin_format", "false")?;
        self.one_of("pack_dtype", &["int32"])?;
        let bits = self.number("bits")?.filter(|bits| [2, 3, 4, 8].contains(bits));
        let bits = bits.ok_or_else(|| self.refuse("bits", "2, 3, 4, 8"))?;
        let varied = self.get("dynamic").and_then(Value::as_object).is_some_and(|d| !d.is_empty());
        Ok(Gptq { bits, group: self.group("group_size")?, short, varied })
    }

    fn awq(&self) -> Result<Scheme, Cause> {
        let (bits, group) = match self.get("w_bit") {
            Some(_) => ("w_bit", "q_group_size"),
            None => ("bits", "group_size"),
        };
        if self.number(bits)? != Some(4) {
            return Err(self.refuse(bits, "4"));
        }
        for key in ["version", "checkpoint_format"] {
            let found = self.text(key)?.map(|v| v.to_lowercase());
            if found.is_some_and(|found| found != "gemm") {
                return Err(self.refuse(key, "gemm"));
            }
        }
        if self.get("zero_point").is_some_and(|v| *v != true) {
            return Err(self.refuse("zero_point", "true"));
        }
        Ok(Scheme::Awq { group: self.group(group)? })
    }

    fn fp8(&self) -> Result<Scheme, Cause> {
        self.one_of("fmt", &["e4m3", "float8_e4m3fn"])?;
        self.no_cache_scheme()?;
        let Some(block) = self.get("weight_block_size") else {
            return Ok(Scheme::Fp8 { block: None });
        };
        let side = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let sides: Option<Vec<usize>> = block.as_array().and_then(|v| v.iter().map(side).collect());
        let block = sides.and_then(|sides| <[usize; 2]>::try_from(sides).ok());
        let block = block.ok_or_else(|| self.refuse("weight_block_size", "two numbers above 0"))?;
        Ok(Scheme::Fp8 { block: Some(block) })
    }

    fn compressed(&self) -> Result<Scheme, Cause> {
        const FORMATS: [&str; 4] =
            ["pack-quantized", "int-quantized", "float-quantized", "naive-quantized"];
        self.one_of("format", &FORMATS)?;
        self.one_of("quantization_status", &["compressed", "frozen"])?;
        self.no_cache_scheme()?;
        self.empty("transform_config")?;
        if let Some(Value::Object(sparsity)) = self.get("sparsity_config")
            && sparsity.get("format").is_some_and(|format| format != "dense")
        {
            return Err(self.refuse("sparsity_config.format", "dense"));
        }
        let groups = self.get("config_groups").and_then(Value::as_object);
        let groups = groups.ok_or_else(|| self.refuse("config_groups", "a map of groups"))?;
        let mut bits = Vec::new();
        for name in groups.keys() {
            let key = |key: &str| format!("config_groups.{name}.weights.{key}");
            match (self.text(&key("type"))?.as_deref(), self.number(&key("num_bits"))?) {
                (Some("int"), Some(n)) if [2, 4, 8].contains(&n) => bits.push(n),
                (Some("int"), _) => return Err(self.refuse(&key("num_bits"), "2, 4, 8")),
                (Some("float"), Some(8)) => {}
                (Some("float"), _) => return Err(self.refuse(&key("num_bits"), "8")),
                _ => return Err(self.refuse(&key("type"), "int, float")),
            }
            let format = format!("config_groups.{name}.format");
            self.one_of(&format, &FORMATS)?;
        }
        Ok(Scheme::Compressed { bits })
    }

    fn no_cache_scheme(&self) -> Result<(), Cause> {
        self.empty("kv_cache_scheme")
    }
    /// The value at a dotted path, unless absent or null.
    fn get(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(self.json, |v, k| v.get(k)).filter(|v| !v.is_null())
    }
    fn text(&self, key: &str) -> Result<Option<String>, Cause> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.refuse(key, "a string")),
        }
    }
    fn number(&self, key: &str) -> Result<Option<usize>, Cause> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().and_then(|n| usize::try_from(n).ok());
        number.map(Some).ok_or_else(|| self.refuse(key, "a whole number"))
    }
    /// Inputs to a group; none for -1.
    fn group(&self, key: &str) -> Result<Option<usize>, Cause> {
        match self.get(key).and_then(Value::as_i64) {
            Some(-1) => Ok(None),
            Some(n) if (1..1 << 24).contains(&n) => Ok(Some(n as usize)),
            _ => Err(self.refuse(key, "-1, or a whole number above 0")),
        }
    }
    fn one_of(&self, key: &str, known: &[&str]) -> Result<(), Cause> {
        let found = self.text(key)?;
        let fits = found.is_none_or(|found| known.contains(&found.as_str()));
        if fits { Ok(()) } else { Err(self.refuse(key, &known.join(", "))) }
    }
    /// Refuses what is true.
    fn not(&self, key: &str, known: &str) -> Result<(), Cause> {
        let truth = self.get(key).is_some_and(|v| *v != false);
        if truth { Err(self.refuse(key, known)) } else { Ok(()) }
    }
    /// Refuses what is not null, or an empty map.
    fn empty(&self, key: &str) -> Result<(), Cause> {
        let empty = self.get(key).is_none_or(|v| v.as_object().is_some_and(|map| map.is_empty()));
        if empty { Ok(()) } else { Err(self.refuse(key, "null")) }
    }
    fn refuse(&self, key: &str, known: &str) -> Cause {
        let found = self.get(key).map_or("not there".to_owned(), Value::to_string);
        let found = found.chars().take(80).collect();
        Cause::Scheme { key: format!("{}{key}", self.within), found, known: known.to_owned() }
    }
}
