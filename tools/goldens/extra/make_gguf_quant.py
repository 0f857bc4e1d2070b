#!/usr/bin/env python3
"""Whole GGUF models quantised by llama.cpp's llama_model_quantize, one per file type, with goldens on the dequantised weights.

  make_gguf_quant.py --llamacpp DIR [--out DIR] [--only llama.Q4_0,...]

DIR additionally holds a `quantize` binary (source gguf, destination, llama_ftype number).  Quantised bytes cannot follow
from a recipe, so these files are literal and as small as the block size allows: types with blocks of 32 or 64 use
hidden 64 (2 layers), types with superblocks of 256 use hidden 256 (1 layer, tied head).
<out>/gguf_quant/<model>.<type>.gguf, .golden.safetensors and .meta.json (the type of every tensor).
The golden is an exact f32 forward on the dequantised weights; an engine that also quantises activations, as llama.cpp
does, will differ by 1e-2 to 1e-1.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [ROOT, HERE]
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import core  # noqa: E402
import materialise  # noqa: E402
from families.common import llama_like  # noqa: E402
from families.qwen import qwen_cfg  # noqa: E402
from make_gguf import Converter  # noqa: E402
from make_quant import record  # noqa: E402

FTYPE = dict(
    F16=1,
    Q4_0=2,
    Q4_1=3,
    Q8_0=7,
    Q5_0=8,
    Q5_1=9,
    Q2_K=10,
    Q3_K_M=12,
    Q4_K_S=14,
    Q4_K_M=15,
    Q5_K_M=17,
    Q6_K=18,
    IQ3_XXS=23,
    IQ4_NL=25,
    IQ3_S=26,
    IQ4_XS=30,
    BF16=32,
    TQ2_0=37,
    MXFP4_MOE=38,
    NVFP4=39,
)
NAMES = [
    (r"^token_embd", "model.embed_tokens"),
    (r"^output_norm", "model.norm"),
    (r"^output\.", "lm_head."),
    (r"^blk\.(\d+)\.attn_norm", r"model.layers.\1.input_layernorm"),
    (r"^blk\.(\d+)\.ffn_norm", r"model.layers.\1.post_attention_layernorm"),
    (r"^blk\.(\d+)\.attn_([qkv])\.", r"model.layers.\1.self_attn.\2_proj."),
    (r"^blk\.(\d+)\.attn_output", r"model.layers.\1.self_attn.o_proj"),
    (r"^blk\.(\d+)\.attn_([qk])_norm", r"model.layers.\1.self_attn.\2_norm"),
    (r"^blk\.(\d+)\.ffn_(gate|up|down)\.", r"model.layers.\1.mlp.\2_proj."),
    (r"^blk\.(\d+)\.ffn_gate_inp", r"model.layers.\1.mlp.gate"),
]

SMALL = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128, num_hidden_layers=2)
WIDE = dict(hidden_size=256, num_attention_heads=4, num_key_value_heads=1, intermediate_size=256, num_hidden_layers=1)
QWEN = dict(attention_bias=False, tie_word_embeddings=True)
MOE = dict(num_experts=2, num_experts_per_tok=1, decoder_sparse_step=1, norm_topk_prob=True, mlp_only_layers=[], attention_bias=False)


def models(v):
    return {
        "llama": core.Spec(llama_like(v, rope_theta=500000.0, **SMALL)),
        "llama256": core.Spec(llama_like(v, rope_theta=500000.0, tie_word_embeddings=True, **WIDE)),
        "qwen3": core.Spec(qwen_cfg(v, "Qwen3ForCausalLM", "qwen3", head_dim=16, **SMALL, **QWEN)),
        "qwen3moe": core.Spec(qwen_cfg(v, "Qwen3MoeForCausalLM", "qwen3_moe", head_dim=16, moe_intermediate_size=64, **SMALL, **MOE)),
    }


# llama_model_quantize of the llama.cpp used refuses NVFP4 as a file type; gguf_types covers its blocks.
JOBS = """llama.Q4_0 llama.Q4_1 llama.Q5_0 llama.Q5_1 llama.Q8_0 llama.IQ4_NL llama256.Q2_K llama256.Q3_K_M llama256.Q4_K_M
llama256.Q5_K_M llama256.Q6_K llama256.IQ3_S llama256.IQ4_XS
llama256.TQ2_0 qwen3.Q8_0 qwen3moe.MXFP4_MOE""".split()


@torch.no_grad()
def load_dequantised(gguf, model, path, cfg):
    """Overwrite every weight of the transformers model with the dequantised one; returns the tensor types."""
    state, types, left = model.state_dict(), {}, set(model.state_dict())
    for t in gguf.GGUFReader(path).tensors:
        types[t.name] = t.tensor_type.name
        w = torch.from_numpy(np.array(gguf.quants.dequantize(t.data, t.tensor_type), dtype=np.float32))
        m = re.match(r"blk\.(\d+)\.ffn_(gate|up|down)_exps", t.name)
        if m:
            name = f"model.layers.{m[1]}.mlp.experts.{'down_proj' if m[2] == 'down' else 'gate_up_proj'}"
            part = state[name] if m[2] == "down" else state[name].chunk(2, 1)[m[2] == "up"]
            part.copy_(w)
            left.discard(name)
            continue
        name = t.name
        for pattern, to in NAMES:
            name = re.sub(pattern, to, name)
        if cfg["model_type"] == "llama" and re.search(r"self_attn\.[qk]_proj", name):  # llama.cpp pairs neighbouring rows for rope
            h = cfg["num_attention_heads"] if "q_proj" in name else cfg["num_key_value_heads"]
            w = w.reshape(h, w.shape[0] // h // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)
        state[name].copy_(w.reshape(state[name].shape))
        left.discard(name)
    left -= {"lm_head.weight"} if cfg.get("tie_word_embeddings") else set()
    assert not left, f"not in the GGUF: {left}"
    return types


def make(conv, item, out, tmp, quantize):
    name, ftype = item.split(".")
    v = core.Variant("open")
    spec = models(v)[name]
    src = f"{tmp}/{item}"
    dst = f"{out}/{item}.gguf"
    for attempt in range(core.ATTEMPTS):
        core.FAMILIES[f"{item}.{attempt}"] = lambda v: spec
        core.make_family(f"{item}.{attempt}", v, tmp, log=lambda s: None)
        materialise.materialise(f"{tmp}/{item}.{attempt}", src)
        conv.run(src, f"{src}/f32.gguf", "f32")
        subprocess.run([quantize, f"{src}/f32.gguf", dst, str(FTYPE[ftype])], check=True, capture_output=True)
        model = core.load(spec, src)
        types = load_dequantised(conv.gguf, model, dst, spec.config)
        g = load_file(f"{tmp}/{item}.{attempt}/golden.safetensors")
        golden, margins = record(model, [g["input_ids_0"].tolist(), g["input_ids_1"].tolist()])
        if min(margins) > 1e-3:
            break
    else:
        raise RuntimeError("no seed gives clear margins")
    materialise.write_safetensors(dst[:-5] + ".golden.safetensors", {n: core.raw(t) for n, t in golden.items()})
    std = float(golden["logits_0"].std())
    core.write_json(dst[:-5] + ".meta.json", dict(types=types, greedy_margin_min=margins, logits_std=round(std, 4), config=spec.config))
    return f"{os.path.getsize(dst) / 1000:6.1f} kB std {std:.2f} margin {min(margins):.4f} {sorted(set(types.values()))}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llamacpp", required=True)
    ap.add_argument("--out", default=os.path.join(ROOT, "..", "..", "goldens"))
    ap.add_argument("--only")
    a = ap.parse_args()
    conv, out, failed = Converter(os.path.abspath(a.llamacpp)), f"{a.out}/gguf_quant", []
    os.makedirs(out, exist_ok=True)
    for item in a.only.split(",") if a.only else JOBS:
        with tempfile.TemporaryDirectory() as tmp:
            try:
                print("ok  ", f"{item:22s}", make(conv, item, out, tmp, os.path.join(os.path.abspath(a.llamacpp), "quantize")), flush=True)
            except Exception as e:
                failed.append(item)
                print("FAIL", item, f"{type(e).__name__}: {str(e)[:300]}", getattr(e, "stderr", b"") and e.stderr[-300:], flush=True)
                if a.only:
                    raise
    print("failed:", failed)


if __name__ == "__main__":
    main()
