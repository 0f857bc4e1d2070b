//! Which layout each matrix of a model is held in: its own type's, or that of the type that it is
//! converted to.
use crate::backend::Quant;
use crate::spec::{ModelSpec, Op};
use crate::weights::needs;
use rinfer_formats::DType;
use rinfer_formats::gguf::recipe::{Facts, Recipe};
use rinfer_formats::quant::Packs;
use rinfer_kernels::Layout;
use std::collections::HashMap;

/// What a model's matrices are converted to.
pub(crate) struct Types {
    quant: Quant,
    /// Whether what is quantised is left as it is.
    keep: bool,
    /// By name, of a recipe's.
    chosen: HashMap<String, DType>,
}

impl Types {
    /// Of the matrices that `spec` needs. Where those that are quantised are not to `keep` their types, a
    /// conversion of them is an error.
    pub fn of(spec: &ModelSpec, quant: Quant, keep: bool) -> Types {
        let chosen = match quant {
            Quant::Gguf(recipe) => chosen(spec, recipe),
            _ => HashMap::new(),
        };
        Types { quant, keep, chosen }
    }
    /// Of matrices that keep their types.
    #[cfg(test)]
    pub fn native() -> Types {
        Types { quant: Quant::Native, keep: false, chosen: HashMap::new() }
    }
    /// The layout that holds rows of `cols` elements of a type: its own or that of what the matrix is
    /// converted to, and f32 where rows are no whole blocks of it.
    pub fn layout(&self, name: &str, dtype: DType, cols: usize) -> Layout {
        let own = || dtype.format().packs().map(layout_of);
        let layout = match self.converted(name, dtype) {
            None => own(),
            Some(_) if self.quant == Quant::Int8 => Some(Layout::W8X),
            Some(to) => to.format().packs().map(layout_of),
        };
        layout.filter(|l| cols.is_multiple_of(l.block())).unwrap_or(Layout::F32)
    }
    /// The type that a matrix of a type is converted to. Embeddings and heads keep 8 bits where others have 4: they
    /// are a small share of the products, and errors of theirs are not evened out by later layers.
    /// Routers keep the type that they have: a row that meets other experts is another row.
    pub fn converted(&self, name: &str, dtype: DType) -> Option<DType> {
        if self.keep && !plain(dtype) && self.quant != Quant::F32 {
            return None;
        }
        if name.contains(".ffn_gate_inp") && self.quant != Quant::F32 {
            return None;
        }
        let end = matches!(name, "token_embd.weight" | "output.weight");
        match self.quant {
            Quant::Native => None,
            Quant::F32 => Some(DType::F32),
            Quant::Bf16 => Some(DType::Bf16),
            Quant::F16 => Some(DType::F16),
            Quant::Int4 if !end => Some(DType::Q4_0),
            Quant::Int8 | Quant::Int8Int8 | Quant::Int4 => Some(DType::Q8_0),
            Quant::Gguf(_) => self.chosen.get(name).copied(),
        }
    }
}

/// Whether a type is no quantised one.
pub(crate) fn plain(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

fn chosen(spec: &ModelSpec, recipe: &Recipe) -> HashMap<String, DType> {
    let needs: Vec<_> = needs(spec).into_iter().filter(|need| need.packed).collect();
    let tensors = needs.iter().map(|need| (need.name.as_str(), need.shape.as_slice()));
    let types = recipe.types(tensors, &facts(spec));
    types.into_iter().map(|(name, dtype)| (name.to_owned(), dtype)).collect()
}

/// What recipes ask of a model.
pub(crate) fn facts(spec: &ModelSpec) -> Facts {
    let parts = || spec.layers.iter().flatten().flat_map(|branch| &branch.parts);
    let experts = parts().filter_map(|part| match &part.op {
        Op::Moe(moe) => Some(moe.experts),
        _ => None,
    });
    let shared = parts().find_map(|part| match &part.op {
        Op::Attention(a) => a.heads.checked_div(a.kv_heads),
        _ => None,
    });
    Facts {
        layers: spec.layers.len(),
        experts: experts.max().unwrap_or(0),
        shared: shared.unwrap_or(1),
    }
}

/// The layout that codes are packed in.
pub(crate) fn layout_of(packs: Packs) -> Layout {
    match packs {
        Packs::F32 => Layout::F32,
        Packs::F16 => Layout::F16,
        Packs::Bf16 => Layout::Bf16,
        Packs::W8 => Layout::W8,
        Packs::W8F => Layout::W8F,
        Packs::W8Z => Layout::W8Z,
        Packs::W8FZ => Layout::W8FZ,
        Packs::W8H => Layout::W8H,
        Packs::W8E => Layout::W8E,
        Packs::W2 => Layout::W2,
        Packs::W4 => Layout::W4,
        Packs::W4Z => Layout::W4Z,
        Packs::W4B => Layout::W4B,
        Packs::W4H => Layout::W4H,
        Packs::W4N => Layout::W4N,
        Packs::W4P => Layout::W4P,
        Packs::W4L => Layout::W4L,
        Packs::W4E => Layout::W4E,
        Packs::W4V => Layout::W4V,
        Packs::W4M => Layout::W4M,
        Packs::W5 => Layout::W5,
        Packs::W5M => Layout::W5M,
        Packs::W2K => Layout::W2K,
        Packs::W4K => Layout::W4K,
        Packs::W5K => Layout::W5K,
        Packs::W6K => Layout::W6K,
        Packs::W3K => Layout::W3K,
        Packs::W3I1 => Layout::W3I1,
        Packs::W3I2 => Layout::W3I2,
        Packs::W4I3 => Layout::W4I3,
        Packs::W4I3S => Layout::W4I3S,
        Packs::W4I4 => Layout::W4I4,
    }
}
