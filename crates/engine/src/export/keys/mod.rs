//! What a spec is in GGUF's keys. What they can't say is missed when they are read back.
mod feed;
mod mixers;
mod rope;

use crate::spec::{Act, Attention, Embed, Head, Layer, ModelSpec, NormKind, Op, Pool, Reach};
use rinfer_formats::gguf::write::Item;
use rinfer_formats::gguf::{Asked, asked};

/// Tensors that are hyper-parameters to us.
pub(super) type Made = Vec<(String, Vec<f32>)>;

/// What architectures say in one of several ways, or leave to their readers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Whether layers without an attention are those of no key heads, or all but each so many-th.
    pub listed: bool,
    /// Whether logits are divided by their factor, or multiplied.
    pub divided: bool,
    /// Whether the embeddings' factor is said.
    pub embedding: bool,
    /// Whether that of scores is.
    pub scores: bool,
}

impl Way {
    /// With everything said.
    pub const WHOLE: Way = Way { listed: true, divided: false, embedding: true, scores: true };

    /// All, those that say least first.
    pub fn all() -> impl Iterator<Item = Way> {
        let bit = |n: usize, i: usize| n >> i & 1 == 1;
        (0..16).map(move |n| Way {
            listed: !bit(n, 0),
            divided: bit(n, 1),
            embedding: bit(n, 2),
            scores: bit(n, 3),
        })
    }
}

/// The keys of `architecture`, and tensors that go with them; an MLP's `width` is stated also where no
/// layer has one.
pub(super) fn of(
    architecture: &str,
    spec: &ModelSpec,
    width: Option<usize>,
    way: Way,
) -> (Vec<(String, Item)>, Made) {
    let mut keys = Keys { architecture, spec, all: Vec::new() };
    keys.count("block_count", spec.layers.len());
    keys.count("context_length", spec.context);
    keys.count("embedding_length", spec.d_model);
    keys.count("vocab_size", spec.vocab);
    keys.norms();
    keys.attention(way);
    keys.windows();
    keys.pooling();
    keys.latent();
    keys.mixers(way);
    keys.feed_forward(width);
    keys.experts();
    keys.inputs();
    keys.factors(way);
    keys.activation();
    let made = keys.ropes();
    keys.asked();
    (keys.all, made)
}

struct Keys<'a> {
    architecture: &'a str,
    spec: &'a ModelSpec,
    all: Vec<(String, Item)>,
}

impl<'a> Keys<'a> {
    fn put(&mut self, key: &str, item: Item) {
        self.all.push((format!("{}.{key}", self.architecture), item));
    }
    fn count(&mut self, key: &str, n: usize) {
        self.put(key, Item::u32(n as u32));
    }
    fn float(&mut self, key: &str, x: f32) {
        self.put(key, Item::f32(x));
    }
    fn flag(&mut self, key: &str, b: bool) {
        self.put(key, Item::bool(b));
    }
    /// One number, or where layers differ, one each.
    fn counts(&mut self, key: &str, by_layer: &[usize]) {
        match by_layer {
            [first, rest @ ..] if rest.iter().any(|n| n != first) => {
                self.put(key, Item::i32s(by_layer.iter().map(|n| *n as i32)));
            }
            [first, ..] => self.count(key, *first),
            [] => {}
        }
    }
    fn attentions(&self) -> Vec<&'a Attention> {
        self.spec.attentions().collect()
    }

    fn norms(&mut self) {
        let Some(norm) = &self.spec.final_norm else { return };
        let key = if norm.kind == NormKind::Layer { "layer_norm" } else { "layer_norm_rms" };
        self.float(&format!("attention.{key}_epsilon"), norm.eps);
    }

    fn attention(&mut self, way: Way) {
        let all = self.attentions();
        let Some(first) = all.first() else { return };
        self.count("attention.head_count", first.heads);
        let heads = self.by_layer(|op| match op {
            Op::Attention(a) => Some(a.kv_heads),
            _ => None,
        });
        let stated: Vec<usize> = match way.listed {
            true => heads.iter().map(|heads| heads.unwrap_or(0)).collect(),
            false => heads.iter().flatten().copied().collect(),
        };
        self.counts("attention.head_count_kv", &stated);
        let whole = all.iter().find(|a| a.reach == Reach::All).unwrap_or(first);
        self.count("attention.key_length", whole.head_dim);
        self.count("attention.value_length", whole.head_dim);
        if let Some(local) = all.iter().find(|a| a.head_dim != whole.head_dim) {
            self.count("attention.key_length_swa", local.head_dim);
            self.count("attention.value_length_swa", local.head_dim);
        }
        if let Some(cap) = first.softcap {
            self.float("attn_logit_softcapping", cap);
        }
        let shared = all.iter().filter(|a| a.kv_from.is_some()).count();
        if shared > 0 {
            self.count("attention.shared_kv_layers", shared);
        }
    }

    fn windows(&mut self) {
        let reaches: Vec<Reach> = self.attentions().iter().map(|a| a.reach).collect();
        let window = |reach: &Reach| match reach {
            Reach::Window(n) => Some(*n),
            _ => None,
        };
        let Some(most) = reaches.iter().find_map(window) else { return };
        // Where rows see both ways, readers halve it.
        let both = self.attentions().iter().any(|a| !a.causal);
        self.count("attention.sliding_window", if both { 2 * (most - 1) } else { most });
        let slides = reaches.iter().map(|reach| *reach != Reach::All);
        self.put("attention.sliding_window_pattern", Item::bools(slides));
    }

    /// What becomes of rows that see each other.
    fn pooling(&mut self) {
        if self.attentions().iter().any(|a| !a.causal) {
            self.flag("attention.causal", false);
        }
        if let Some(types) = self.spec.embed.types {
            self.all.push(("tokenizer.ggml.token_type_count".into(), Item::u32(types as u32)));
        }
        let Head::Pool { how, dense, .. } = &self.spec.head else { return };
        match how {
            Pool::Mean => self.count("pooling_type", 1),
            Pool::Cls => self.count("pooling_type", 2),
            Pool::Last => self.count("pooling_type", 3),
            Pool::Max => {}
        }
        let mut from = self.spec.d_model;
        for (i, layer) in dense.iter().enumerate() {
            self.count(&format!("dense_{}_feat_in", i + 2), from);
            self.count(&format!("dense_{}_feat_out", i + 2), layer.width);
            from = layer.width;
        }
    }

    /// Of each layer what one of its operations has, if one has it.
    fn by_layer<T>(&self, of: impl Fn(&Op) -> Option<T>) -> Vec<Option<T>> {
        let ops = |layer: &'a Layer| layer.iter().flat_map(|b| &b.parts).map(|part| &part.op);
        self.spec.layers.iter().map(|layer| ops(layer).find_map(&of)).collect()
    }

    /// What embeddings, scores, branches and logits are multiplied by, and whether branches lie side by
    /// side.
    fn factors(&mut self, way: Way) {
        let Embed { scale, .. } = self.spec.embed;
        if way.embedding && scale != 1.0 {
            self.float("embedding_scale", scale);
        }
        if let Some(a) = self.attentions().first().filter(|_| way.scores) {
            self.float("attention.scale", a.scale);
        }
        let branch = self.spec.layers.iter().flatten().next();
        if let Some(branch) = branch.filter(|branch| branch.scale != 1.0) {
            self.float("residual_scale", branch.scale);
        }
        if let Head::Lm { scale, softcap, .. } = self.spec.head {
            if scale != 1.0 {
                self.float("logit_scale", if way.divided { 1.0 / scale } else { scale });
            }
            if let Some(cap) = softcap {
                self.float("final_logit_softcapping", cap);
            }
        }
        if let Some(branch) = branch {
            let both = [true, false].map(|attends| {
                branch.parts.iter().any(|part| match part.op {
                    Op::Attention(_) => attends,
                    Op::Mlp(_) => !attends,
                    _ => false,
                })
            });
            self.flag("use_parallel_residual", both == [true; 2]);
        }
    }

    /// What readers ask for although it says nothing.
    fn asked(&mut self) {
        for (key, value) in asked(self.architecture) {
            let full = format!("{}.{key}", self.architecture);
            if self.all.iter().any(|(stated, _)| *stated == full) {
                continue;
            }
            match value {
                Asked::Zero => self.count(key, 0),
                Asked::Epsilon => {
                    let norm = self.spec.final_norm;
                    norm.into_iter().for_each(|norm| self.float(key, norm.eps));
                }
            }
        }
    }

    /// What each layer's activation is made of.
    fn activation(&mut self) {
        let parts = self.by_layer(|op| match op {
            Op::Mlp(mlp) => match mlp.act {
                Act::XIelu { positive, negative, beta, bound } => {
                    Some([raw(positive, 0.0), raw(negative, beta), beta, bound])
                }
                _ => None,
            },
            _ => None,
        });
        let all: Vec<[f32; 4]> = parts.into_iter().flatten().collect();
        if all.is_empty() {
            return;
        }
        for (i, name) in ["alpha_p", "alpha_n", "beta", "eps"].into_iter().enumerate() {
            let values = Item::f32s(all.iter().map(|one| one[i]));
            self.all.push((format!("xielu.{name}"), values));
        }
    }
}

/// Of what `y` is `plus + ln(1 + e^x)`.
fn raw(y: f32, plus: f32) -> f32 {
    let exact = libm::log(libm::expm1(f64::from(y) - f64::from(plus)));
    let made = |x: f32| plus + libm::log1p(libm::exp(f64::from(x))) as f32;
    // Checkpoints hold them with 8 bits.
    let short = crate::families::common::bf16(exact as f32);
    if made(short) == y { short } else { exact as f32 }
}
