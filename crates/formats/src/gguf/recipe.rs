//! Recipes of GGUF files: which type each tensor of a model is converted to, as llama.cpp chooses it.
//!
//! Most tensors get a recipe's own type. Those that errors count most in get more bits: the head, values,
//! and what leaves an MLP, in the first and last layers above all.
use crate::tensor::DType;
use std::collections::HashMap;

/// One recipe.
#[derive(Debug, PartialEq, Eq)]
pub struct Recipe {
    /// As `--quant` spells it.
    pub name: &'static str,
    /// Its number under `general.file_type`.
    pub file_type: u32,
    /// What tensors are converted to for which nothing else is said.
    pub base: DType,
    /// Of values, by the first rule that fits.
    values: &'static [(Layers, DType)],
    /// Of what leaves an MLP.
    down: &'static [(Layers, DType)],
    /// Of what leaves an attention.
    out: Option<DType>,
    /// Of stacks of matrices; all others are of the base then.
    stacks: Option<DType>,
}

/// Which layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layers {
    /// Every one.
    All,
    /// So many.
    First(usize),
    /// So much less than all.
    FirstPart(usize),
    /// The first and last eighth, and each third between.
    Most,
    /// Every one, of models whose key heads serve four query heads or more.
    Shared,
}
use Layers::{All, First, FirstPart, Most, Shared};

/// Every recipe.
#[rustfmt::skip]
pub static RECIPES: &[Recipe] = &[
    plain("q4_0", 2, DType::Q4_0),
    plain("q4_1", 3, DType::Q4_1),
    plain("q5_0", 8, DType::Q5_0),
    plain("q5_1", 9, DType::Q5_1),
    plain("q8_0", 7, DType::Q8_0),
    Recipe {
        values: &[(Shared, DType::Q4_K), (All, DType::Q3_K)],
        down: &[(All, DType::Q3_K)],
        out: Some(DType::Q3_K),
        ..plain("q2_k", 10, DType::Q2_K)
    },
    plain("q3_k_s", 11, DType::Q3_K),
    Recipe {
        values: &[(First(2), DType::Q5_K), (All, DType::Q4_K)],
        down: &[(FirstPart(16), DType::Q5_K), (All, DType::Q4_K)],
        out: Some(DType::Q4_K),
        ..plain("q3_k_m", 12, DType::Q3_K)
    },
    Recipe {
        values: &[(First(4), DType::Q5_K)],
        down: &[(FirstPart(8), DType::Q5_K)],
        ..plain("q4_k_s", 14, DType::Q4_K)
    },
    Recipe {
        values: &[(Most, DType::Q6_K)],
        down: &[(Most, DType::Q6_K)],
        ..plain("q4_k_m", 15, DType::Q4_K)
    },
    plain("q5_k_s", 16, DType::Q5_K),
    Recipe {
        values: &[(Most, DType::Q6_K)],
        down: &[(Most, DType::Q6_K)],
        ..plain("q5_k_m", 17, DType::Q5_K)
    },
    plain("q6_k", 18, DType::Q6_K),
    Recipe {
        values: &[(Shared, DType::Q5_K)],
        down: &[(FirstPart(8), DType::Q5_K)],
        ..plain("iq4_nl", 25, DType::IQ4_NL)
    },
    // Experts alone have so few bits.
    Recipe { stacks: Some(DType::MXFP4), ..plain("mxfp4_moe", 38, DType::Q8_0) },
];

const fn plain(name: &'static str, file_type: u32, base: DType) -> Recipe {
    Recipe { name, file_type, base, values: &[], down: &[], out: None, stacks: None }
}

/// What of a model the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Layers.
    pub layers: usize,
    /// Experts of a layer, if any.
    pub experts: usize,
    /// Query heads that a key head serves.
    pub shared: usize,
}

impl Recipe {
    /// The recipe called `name`.
    pub fn of_name(name: &str) -> Option<&'static Recipe> {
        RECIPES.iter().find(|recipe| recipe.name == name)
    }

    /// The type of each tensor, given by name and shape, that is converted; the others stay.
    pub fn types<'a, 's>(
        &self,
        tensors: impl Iterator<Item = (&'a str, &'s [usize])>,
        facts: &Facts,
    ) -> HashMap<&'a str, DType> {
        let mut all: Vec<(&'a str, &'s [usize])> =
            tensors.filter(|t| converted(t.0, t.1)).collect();
        all.sort_by_key(|(name, _)| (layer(name), *name));
        let tied = !all.iter().any(|(name, _)| *name == "output.weight");
        let count = all.iter().filter(|(name, _)| kind(name, tied) == Kind::Values).count();
        let (mut values, mut down) = (0..count, 0..);
        let choose = |(name, shape): (&'a str, &'s [usize])| {
            let stack = shape.len() > 2 && shape[shape.len() - 3] > 1;
            let chosen = match kind(name, tied) {
                _ if self.stacks.is_some() => self.stacks.filter(|_| stack).unwrap_or(self.base),
                Kind::End => self.end(),
                Kind::Values => self.values(values.next().unwrap_or(0), count, facts),
                Kind::Keys if facts.experts == 8 => DType::Q8_0,
                Kind::Down => {
                    let i = down.next().unwrap_or(0);
                    // Layers have several experts' tensors, or none.
                    let i = layer(name).filter(|_| facts.experts > 1).unwrap_or(i);
                    first(self.down, i, facts.layers, facts).unwrap_or(self.base)
                }
                Kind::Out => self.out(facts),
                Kind::Keys | Kind::Other => self.base,
            };
            (name, fitting(chosen, shape.last().copied().unwrap_or(1)))
        };
        all.into_iter().map(choose).collect()
    }

    fn end(&self) -> DType {
        if self.base == DType::Q8_0 { DType::Q8_0 } else { DType::Q6_K }
    }
    fn values(&self, i: usize, count: usize, facts: &Facts) -> DType {
        let chosen = first(self.values, i, count, facts).unwrap_or(self.base);
        match chosen {
            _ if facts.experts == 8 => DType::Q8_0,
            // They are a small share of large models whose heads share them.
            DType::Q3_K | DType::Q4_K if facts.layers == 80 && facts.shared > 1 => DType::Q5_K,
            chosen => chosen,
        }
    }
    fn out(&self, facts: &Facts) -> DType {
        let few = matches!(self.base, DType::Q2_K | DType::Q3_K | DType::Q4_K | DType::IQ4_NL);
        if facts.experts == 8 && few { DType::Q5_K } else { self.out.unwrap_or(self.base) }
    }
}

/// What a tensor does, as far as it matters here.
#[derive(PartialEq, Eq)]
enum Kind {
    End,
    Values,
    Keys,
    Down,
    Out,
    Other,
}

fn kind(name: &str, tied: bool) -> Kind {
    let part = name.splitn(3, '.').nth(2).filter(|_| name.starts_with("blk.")).unwrap_or(name);
    match part {
        "output.weight" => Kind::End,
        "token_embd.weight" | "per_layer_token_embd.weight" if tied => Kind::End,
        "attn_v.weight" | "attn_qkv.weight" | "attn_kv_b.weight" => Kind::Values,
        "attn_k.weight" => Kind::Keys,
        "attn_output.weight" => Kind::Out,
        _ if part.starts_with("ffn_down") => Kind::Down,
        _ => Kind::Other,
    }
}

/// Whether a tensor is converted: a matrix, or a stack of them, that is not small and much depended on.
pub fn converted(name: &str, shape: &[usize]) -> bool {
    const KEPT: [&str; 10] = [
        "_norm.weight",
        "ffn_gate_inp.weight",
        "altup",
        "laurel",
        "per_layer_model_proj",
        "position_embd.weight",
        "token_types.weight",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "attn_rel_b.weight",
    ];
    let matrix = shape.iter().filter(|axis| **axis > 1).count() > 1 && name.ends_with("weight");
    matrix && !KEPT.iter().any(|kept| name.contains(kept))
}

fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

fn first(rules: &[(Layers, DType)], i: usize, count: usize, facts: &Facts) -> Option<DType> {
    let fits = |layers: Layers| match layers {
        All => true,
        First(n) => i < n,
        FirstPart(n) => i < count / n,
        Most => i < count / 8 || i >= 7 * count / 8 || i.saturating_sub(count / 8) % 3 == 2,
        Shared => facts.shared >= 4,
    };
    rules.iter().find(|(layers, _)| fits(*layers)).map(|(_, dtype)| *dtype)
}

/// The type, or where rows are no whole blocks of it, the next of small blocks, or F16.
fn fitting(dtype: DType, cols: usize) -> DType {
    let fits = |dtype: DType| cols.is_multiple_of(dtype.format().elems);
    let next = match dtype {
        _ if fits(dtype) => return dtype,
        DType::Q2_K | DType::Q3_K => DType::Q4_0,
        DType::Q4_K => DType::Q5_0,
        DType::Q5_K => DType::Q5_1,
        _ => DType::Q8_0,
    };
    if fits(next) { next } else { DType::F16 }
}
