#!/usr/bin/env python3
"""Embedding-model goldens: tiny encoders -> last_hidden_state and its poolings, with a padded batch.

  make_embed.py [--variant open|held] [--out DIR]

<out>/embed/<case>/ is a case as in FORMAT.md with other recorded data: input_ids [B,T], attention_mask [B,T],
last_hidden_state [B,T,H], mean, cls, last (each [B,H], unnormalised) and mean_normed.  Row 0 is full length, row 1 is
right-padded; rows equal unpadded single runs (asserted).
"""

import argparse
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, ROOT)
import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModel  # noqa: E402

import core  # noqa: E402
from core import Spec  # noqa: E402
from families.qwen import qwen_cfg  # noqa: E402

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def bert_like(v, arch, mt, **kw):
    d = dict(
        architectures=[arch],
        model_type=mt,
        vocab_size=v(256, 288),
        hidden_size=v(64, 96),
        num_hidden_layers=v(3, 4),
        num_attention_heads=v(4, 6),
        intermediate_size=v(128, 160),
        hidden_act="gelu",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        max_position_embeddings=128,
        type_vocab_size=2,
        layer_norm_eps=1e-12,
        pad_token_id=0,
        position_embedding_type="absolute",
        torch_dtype="float32",
    )
    d.update(kw)
    return d


@case
def bert(v):
    return Spec(
        bert_like(v, "BertModel", "bert"),
        auto=AutoModel,
        dtype="f32",
        notes="post-LN, exact gelu, absolute positions, pooler present but unused by mean pooling",
    )


@case
def xlm_roberta(v):
    return Spec(
        bert_like(
            v, "XLMRobertaModel", "xlm-roberta", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2
        ),
        auto=AutoModel,
        dtype="f32",
        notes="positions = pad_id + 1 + index of non-pad token",
    )


@case
def nomic_bert(v):
    return Spec(
        dict(
            architectures=["NomicBertModel"],
            model_type="nomic_bert",
            vocab_size=v(256, 288),
            hidden_size=v(64, 96),
            num_hidden_layers=v(3, 4),
            num_attention_heads=v(4, 6),
            intermediate_size=v(128, 160),
            hidden_act="silu",
            max_position_embeddings=128,
            type_vocab_size=2,
            layer_norm_eps=1e-12,
            pad_token_id=0,
            rope_parameters=dict(rope_type="default", rope_theta=1000.0),
            torch_dtype="float32",
        ),
        auto=AutoModel,
        dtype="f32",
        notes="rope 1000, SwiGLU, post-LN, no biases",
    )


@case
def modernbert(v):
    return Spec(
        dict(
            architectures=["ModernBertModel"],
            model_type="modernbert",
            vocab_size=v(256, 288),
            hidden_size=v(64, 96),
            num_hidden_layers=v(4, 5),
            num_attention_heads=v(4, 6),
            intermediate_size=v(96, 112),
            hidden_activation="gelu",
            max_position_embeddings=256,
            norm_eps=1e-5,
            norm_bias=False,
            attention_bias=False,
            mlp_bias=False,
            global_rope_theta=160000.0,
            local_rope_theta=10000.0,
            local_attention=v(8, 12),
            global_attn_every_n_layers=3,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
            embedding_dropout=0.0,
            torch_dtype="float32",
        ),
        auto=AutoModel,
        dtype="bf16",
        notes="pre-LN, first layer has no attn norm, GeGLU, bidirectional local window (half = local_attention//2 each side) with its own rope theta",
    )


@case
def embeddinggemma(v):
    return Spec(
        dict(
            architectures=["Gemma3TextModel"],
            model_type="gemma3_text",
            vocab_size=v(256, 288),
            hidden_size=v(64, 96),
            intermediate_size=v(96, 112),
            num_hidden_layers=v(4, 6),
            num_attention_heads=v(4, 6),
            num_key_value_heads=1,
            head_dim=v(24, 20),
            hidden_activation="gelu_pytorch_tanh",
            rms_norm_eps=1e-6,
            query_pre_attn_scalar=v(40, 16),
            rope_theta=1000000.0,
            rope_local_base_freq=10000.0,
            rope_scaling=None,
            sliding_window=v(16, 12),
            _sliding_window_pattern=3,
            sliding_window_pattern=3,
            use_bidirectional_attention=True,
            attention_bias=False,
            max_position_embeddings=256,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=1,
            torch_dtype="bfloat16",
        ),
        auto=AutoModel,
        dtype="bf16",
        notes="Gemma 3 text with bidirectional attention; the window becomes symmetric: config value w is turned into w//2+1 on load",
    )


@case
def qwen3_embedding(v):
    d = qwen_cfg(v, "Qwen3Model", "qwen3", head_dim=v(32, 24), attention_bias=False, tie_word_embeddings=True)
    return Spec(d, auto=AutoModel, notes="Qwen3-Embedding: causal, last-token pooling")


@torch.no_grad()
def make(name, v, root):
    spec, case = CASES[name](v), f"{root}/{name}"
    shutil.rmtree(case, ignore_errors=True)
    os.makedirs(case)
    seed = core.family_seed("embed/" + name, v.name, 0)
    with tempfile.TemporaryDirectory() as tmp:
        model = core.build(spec, tmp, seed)
        weights = core.initialise(model, core.saved_state(model, tmp), spec, seed)
        core.write_case(case, spec.config, weights)
        m = core.load_case(spec, case, f"{tmp}/case")
        pad, vocab = spec.config.get("pad_token_id") or 0, spec.config["vocab_size"]
        rng = np.random.default_rng(seed)
        T, S = v.prompt_lens
        a, b = rng.integers(5, vocab - 1, T).tolist(), rng.integers(5, vocab - 1, S).tolist()
        ids, mask = torch.tensor([a, b + [pad] * (T - S)]), torch.tensor([[1] * T, [1] * S + [0] * (T - S)])
        h = m(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        ha, hb = m(input_ids=torch.tensor([a])).last_hidden_state[0], m(input_ids=torch.tensor([b])).last_hidden_state[0]
        diff = max(float((h[0] - ha).abs().max()), float((h[1, :S] - hb).abs().max()))
        assert diff < 1e-4, f"padding changes the result by {diff}"
        h = torch.stack([ha, torch.cat([hb, h[1, S:]])])
        weight = mask[..., None].float()
        mean, last = (h * weight).sum(1) / weight.sum(1), torch.stack([h[0, T - 1], h[1, S - 1]])
        core.write_case(
            case,
            spec.config,
            weights,
            dict(
                input_ids=ids.int(),
                attention_mask=mask.int(),
                last_hidden_state=h,
                mean=mean,
                cls=h[:, 0],
                last=last,
                mean_normed=torch.nn.functional.normalize(mean, dim=-1),
            ),
        )
        again = core.load_case(spec, case, f"{tmp}/case")(input_ids=torch.tensor([a])).last_hidden_state[0]
        assert torch.allclose(again, ha, atol=1e-5), "reload differs"
    core.write_json(
        f"{case}/meta.json",
        dict(
            family=name,
            notes=spec.notes,
            model_type=spec.config["model_type"],
            dtype=spec.dtype,
            hidden_std=round(float(h.std()), 4),
            padding_max_diff=diff,
        ),
    )
    size = sum(os.path.getsize(f"{case}/{f}") for f in os.listdir(case))
    print(f"ok   {name:20s} {size / 1000:6.1f} kB std {float(h.std()):.2f} padding {diff:.1e}", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--variant", default="open", choices=["open", "held"])
    ap.add_argument("--out")
    a = ap.parse_args()
    v = core.Variant(a.variant)
    root = os.path.join(a.out or os.path.join(ROOT, "..", "..", "goldens"), "embed")
    for name in CASES:
        try:
            make(name, v, root)
        except Exception as e:
            print("FAIL", name, type(e).__name__, str(e)[:300], flush=True)


if __name__ == "__main__":
    main()
