"""Random weights for every tensor of a model: by recipe where it is big, literal where it is small."""
import math
import re
from dataclasses import dataclass

import materialise
import numpy as np
import torch
from spec import TORCH
from tensors import raw

LANES_STD = 37837.2                   # standard deviation of the sum of four uniform 16-bit lanes
RECIPE_MIN = 256                      # smaller tensors are stored literally

# A rule is fn(default, rng) -> Normal (a plain std * normal, so eligible for a recipe) or literal values, where
# `default` is what transformers initialises the tensor to.

@dataclass
class Normal:
    std: float


def fixed(std):
    return lambda t, rng: Normal(std)


def fan_in(gain=1.0, axis=-1):
    return lambda t, rng: Normal(gain / math.sqrt(t.shape[axis]))


def noise(t, rng, std):
    return torch.from_numpy(rng.standard_normal(tuple(t.shape), dtype=np.float32)) * std


def around(base, std):
    return lambda t, rng: base + noise(t, rng, std)


def around_default(std):
    return lambda t, rng: t.float() + noise(t, rng, std)


def keep_default(t, rng):
    return t.float()


def vector(t, rng):                             # norm weights, biases, gates
    f = t.float()
    if f.numel() and float(f.std(unbiased=False)) >= 0.05:
        return f + noise(t, rng, 0.2)
    return (f.mean() if f.numel() else 0.0) + noise(t, rng, 0.2)


INIT_RULES = [
    (r"(e_score_correction_bias|expert_bias|moe_statics)", fixed(0.15)),
    (r"A_log$", around_default(0.3)),
    (r"(dt_bias|dt_proj\.bias)$", around(-1.0, 0.6)),
    (r"(^|\.)D$", around(1.0, 0.3)),
    (r"sinks?$", fixed(1.0)),
    (r"(layer_scalar|skip_scale|scalar)$", around(1.0, 0.2)),
    (r"recurrent_param$", around_default(0.3)),
    (r"(conv1d?|conv\.conv|short_conv\w*|[qkv]_conv1d|conv)\.weight$",
     lambda t, rng: Normal((1.2 if t.dim() == 3 else 1.0) / math.sqrt(t.shape[-1]))),
    (r"(q_proj|k_proj|q_b_proj|q_a_proj|query_key_value|c_attn|qkv_proj|wqkv|W_pack)\.weight$", fan_in(1.25)),
]

F32_KEEP = re.compile(r"(A_log|\.D$|dt_bias|correction_bias|expert_bias|sinks|slope_rate|_decay$)")
RANDOM_BUFFER = re.compile(r"correction_bias|expert_bias|moe_statics|scalar|scale$")
EMBEDDING = re.compile(r"(embed_tokens|word_embeddings|wte|embeddings?|embed_in|tok_embeddings)\.weight$")
TOKENS = re.compile(r"embed_tokens\.weight$")
HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output_layer|output)\.weight$")
FINAL_NORM = re.compile(r"(^|\.)(norm|norm_f|final_norm|final_layernorm|ln_f|embedding_norm|final_layer_norm)\.weight$")
IN_LAYER = re.compile(r"(^|\.)(layers|h|blocks|block|layer)\.\d+\.")


class Weights:
    """The tensors of one checkpoint: generated ones as (shape, dtype, std), the others as torch tensors."""

    def __init__(self, seed):
        self.seed, self.recipes, self.literals = seed, {}, {}

    def entries(self):
        out = []
        for name, (shape, dtype, std) in self.recipes.items():
            scale = np.float32(std / LANES_STD)
            short = float(str(scale))                  # shortest decimal that gives this f32 back
            assert np.float32(short) == scale
            out.append(dict(name=name, shape=shape, dtype=dtype, scale=short))
        return out

    def expand(self):
        out = {e["name"]: materialise.generate(self.seed, e) for e in self.entries()}
        out.update({n: raw(t) for n, t in self.literals.items()})
        return out

    def scale_head(self, factor):
        """Multiply the output projection (the embedding table when tied) and its bias."""
        outside = [n for n in self.recipes if not IN_LAYER.search(n)]
        names = next(filter(None, ([n for n in outside if r.search(n)] for r in (HEAD, TOKENS, EMBEDDING))), [])
        assert len(names) == 1, f"head: {names}"
        shape, dtype, std = self.recipes[names[0]]
        self.recipes[names[0]] = (shape, dtype, std * factor)
        bias = names[0].replace(".weight", ".bias")
        if HEAD.search(names[0]) and bias in self.literals:
            b = self.literals[bias]
            self.literals[bias] = (b.float() * factor).to(b.dtype)


def initialise(model, state, spec, seed):
    """Every parameter and persistent buffer gets a random value; nothing stays at a default that would hide a bug."""
    tied = model.tied_golden
    leaf = lambda n: n.rsplit(".", 1)[-1]  # noqa: E731
    params = {leaf(n) for n, _ in model.named_parameters()}
    frozen = {leaf(n) for n, _ in model.named_buffers() if not RANDOM_BUFFER.search(n)} - params
    w = Weights(seed)
    for name, t in state.items():
        if not t.is_floating_point():
            w.literals[name] = t
            continue
        rng = np.random.default_rng([seed, materialise.fnv1a64(name.encode())])
        rule = next((fn for pat, fn in [*spec.rules, *INIT_RULES] if re.search(pat, name)), None)
        if rule is None and leaf(name) in frozen:
            rule = keep_default
        if rule is None and tied and t.dim() == 1 and FINAL_NORM.search(name) and not IN_LAYER.search(name):
            # tied head: a sign-mixed final norm keeps a token from simply predicting itself
            rule = around(-1.0 if float(t.float().abs().mean()) < 0.5 else 0.0, 1.0)
        if rule is None:
            if EMBEDDING.search(name) and t.dim() == 2:
                rule = fixed(2.0 / math.sqrt(hidden_size(model)) if tied else 1.0)
            else:
                rule = fan_in() if t.dim() >= 2 else vector
        value = rule(t, rng)
        dtype = "f32" if F32_KEEP.search(name) and t.dtype == torch.float32 else spec.dtype
        if isinstance(value, Normal):
            if t.dim() >= 2 and t.numel() >= RECIPE_MIN:
                w.recipes[name] = (list(t.shape), dtype, value.std)
                continue
            value = noise(t, rng, value.std)
        w.literals[name] = value.to(TORCH[dtype]).contiguous()
    return w


def hidden_size(model):
    c = model.config.get_text_config()
    return getattr(c, "hidden_size", None) or getattr(c, "n_embd", None) or getattr(c, "d_model", None)
