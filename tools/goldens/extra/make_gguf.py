#!/usr/bin/env python3
"""GGUF checkpoints of the tiny families, made with llama.cpp's own converter, in compact form.

  make_gguf.py --llamacpp DIR [--out DIR] [--only llama31:bf16,...] [--no-check]

DIR holds llama.cpp's `conversion` and `gguf-py`, and optionally a `logits` binary (gguf, comma-separated ids, output
file of f32 logits) with which every conversion is checked once more as f32.

<out>/gguf/<family>.<type>/ holds stub.gguf and gguf.json (see FORMAT.md).  The weights and the golden are those of
<out>/<family>, or lie beside stub.gguf when the GGUF copy needs another config (OVERRIDES).
The vocabulary is synthetic ("gpt2" model: the 256 byte tokens, then [extra_i]); ids are what matters.
"""

import argparse
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, ROOT)
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import core  # noqa: E402
import families  # noqa: E402, F401
import materialise  # noqa: E402

DEFAULT = """llama2:f16 llama31:bf16 llama31:f32 llama32:bf16 mistral_nemo:bf16 mixtral:bf16 qwen2:bf16 qwen3:bf16 qwen3_moe:bf16
qwen3_next:bf16 qwen3_5:bf16 qwen3_5_moe:bf16 gemma:bf16 gemma2:bf16 gemma3_text:bf16 gemma3n_text:bf16 gemma4_e2b:bf16
gemma4_26b_a4b:bf16 phi2:bf16 phi3_sliding:bf16 phi3_longrope:bf16 deepseek_v2:bf16 deepseek_v2_lite:bf16 deepseek_v3:bf16
kimi_linear:bf16 glm4:bf16 glm4_moe:bf16 glm4_moe_lite:bf16 granite:bf16 granitemoe:bf16 granitemoehybrid:bf16 nemotron:bf16
nemotron_h:bf16 nemotron_h_moe:bf16 mamba:bf16 mamba2:bf16 falcon_h1:bf16 falcon_7b:bf16 falcon_40b:bf16 jamba:bf16 olmo2:bf16
olmo3:bf16 olmoe:bf16 starcoder2:bf16 stablelm:bf16 smollm3:bf16 cohere:bf16 cohere2:bf16 gpt_oss:bf16 gpt2:f32 gpt_neox:bf16
minicpm:bf16 exaone4_1b:bf16 internlm2:bf16 hunyuan_v1_dense:bf16 ernie4_5:bf16 ernie4_5_moe:bf16 seed_oss:bf16 dots1:bf16
bailing_moe:bf16 chatglm4:bf16 lfm2:bf16 lfm2_moe:bf16 apertus:bf16 arcee:bf16 llama4_text:bf16 minimax_m2:bf16""".split()

# Config changes for the GGUF copy, where GGUF (or llama.cpp) has no key for the quirk that the plain checkpoint exercises.
OVERRIDES = {
    "gemma2": dict(query_pre_attn_scalar=24),
    "gemma3_text": dict(query_pre_attn_scalar=24, sliding_window_pattern=6, num_hidden_layers=6),
    "gpt_oss": dict(
        swiglu_limit=7.0,
        rope_scaling=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=True, original_max_position_embeddings=16),
    ),
    "phi3_sliding": dict(sliding_window=None),
    "starcoder2": dict(sliding_window=None),
    "lfm2": dict(layer_types=["conv", "conv", "full_attention", "conv", "full_attention"]),
    "cohere2": dict(head_dim=16),
    "olmoe": dict(num_key_value_heads=4),
    "phi2": dict(intermediate_size=256),
    "glm4_moe_lite": dict(scoring_func="sigmoid"),
    "deepseek_v2": dict(n_group=1, topk_group=1, topk_method="greedy"),
    "ernie4_5_moe": dict(moe_num_shared_experts=1),
    # llama.cpp folds these multipliers into the weights, so a reader of the GGUF never sees them: 1 keeps the rows generated
    "falcon_h1": dict(
        lm_head_multiplier=1.0,
        embedding_multiplier=1.0,
        mlp_multipliers=[1.0, 1.0],
        key_multiplier=1.0,
        attention_out_multiplier=1.0,
        attention_in_multiplier=1.0,
        ssm_multipliers=[1.0] * 5,
        ssm_in_multiplier=1.0,
        ssm_out_multiplier=1.0,
    ),
    "llama4_text": dict(attention_chunk_size=8192, floor_scale=8192),
}
KINDS = {"F32": "f32", "F16": "f16", "BF16": "bf16"}


# ---------------------------------------------------------------- llama.cpp's converter


def byte_tokens():
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    chars = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(other)}
    return [chars[b] for b in range(256)]


class Converter:
    def __init__(self, llamacpp):
        sys.path[:0] = [os.path.join(llamacpp, "gguf-py"), llamacpp]
        import conversion
        import gguf
        from conversion import base

        self.conversion, self.base, self.gguf = conversion, base, gguf
        self.logits = os.path.join(llamacpp, "logits")
        base.ModelBase.load_hparams = staticmethod(self.hparams)
        logging.disable(logging.INFO)

    @staticmethod
    def hparams(directory, is_mistral_format=False):
        with open(Path(directory) / "config.json") as f:
            return json.load(f)

    def run(self, src, dst, outtype):
        kind = dict(f32="ALL_F32", f16="MOSTLY_F16", bf16="MOSTLY_BF16", q8_0="MOSTLY_Q8_0")[outtype]
        hp = self.hparams(src)
        n = hp.get("vocab_size") or hp.get("padded_vocab_size")
        cls = self.conversion.get_model_class(self.base.get_model_architecture(hp, self.base.ModelType.TEXT), mmproj=False)
        if hasattr(cls, "no_mtp"):
            cls.no_mtp = True
        gguf = self.gguf

        def set_vocab(model, *a, **k):
            types = [gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.USER_DEFINED] * (n - 256)
            types[:3] = [gguf.TokenType.CONTROL] * 3
            w = model.gguf_writer
            w.add_tokenizer_model("gpt2")
            w.add_tokenizer_pre("default")
            w.add_token_list((byte_tokens() + [f"[extra_{i}]" for i in range(n - 256)])[:n])
            w.add_token_types(types[:n])
            w.add_token_merges(["a b"])
            w.add_bos_token_id(1)
            w.add_eos_token_id(2)
            w.add_add_bos_token(False)

        old, cls.set_vocab = cls.set_vocab, set_vocab
        try:
            with torch.inference_mode(), tempfile.TemporaryDirectory() as td:
                for f in ("config.json", "model.safetensors"):
                    shutil.copyfile(f"{src}/{f}", f"{td}/{f}")
                with open(f"{td}/tokenizer.json", "w") as f:  # Gemma's converter counts the real tokens in it
                    json.dump({"model": {"vocab": {str(i): i for i in range(n)}}, "added_tokens": []}, f)
                cls(Path(td), getattr(gguf.LlamaFileType, kind), Path(dst), model_name="tiny").write()
        finally:
            cls.set_vocab = old

    def check(self, src, golden, tmp):
        """Largest logit difference between llama.cpp on an f32 conversion and the golden."""
        self.run(src, f"{tmp}/f32.gguf", "f32")
        t, worst = load_file(golden), 0.0
        for i in (0, 1):
            ids = ",".join(map(str, t[f"input_ids_{i}"].tolist()))
            if (
                i == 0
                and subprocess.run([self.logits, f"{tmp}/f32.gguf", ids, f"{tmp}/logits"], capture_output=True, timeout=120).returncode
            ):
                return None  # this llama.cpp cannot load the conversion
            subprocess.run([self.logits, f"{tmp}/f32.gguf", ids, f"{tmp}/logits"], check=True, capture_output=True, timeout=120)
            got = np.fromfile(f"{tmp}/logits", np.float32).reshape(t[f"logits_{i}"].shape)
            worst = max(worst, float(np.abs(got - t[f"logits_{i}"].numpy()).max()))
        return worst


# ---------------------------------------------------------------- compact form


def runs(pairs):
    """[(source, row), ...] -> [[source, start, step, count], ...]"""
    out = []
    for source, row in pairs:
        last = out[-1] if out else None
        if last and last[0] == source:
            if last[3] == 1:
                last[2], last[3] = row - last[1], 2
                continue
            if row == last[1] + last[2] * last[3]:
                last[3] += 1
                continue
        out.append([source, row, 1, 1])
    return out


def compact(gguf, path, case_dir, case, out):
    """Write stub.gguf and gguf.json: tensors whose rows occur in generated tensors become row lists, others literals."""
    weights = materialise.load_case(case_dir)
    with open(f"{case_dir}/weights.json") as f:
        names = [t["name"] for t in json.load(f)["tensors"]]
    candidates = [dict(name=n) for n in names] + [dict(name=n, transpose=True) for n in names]
    reader = gguf.GGUFReader(path)
    with open(path, "rb") as f:
        blob = f.read()
    data = min(t.data_offset for t in reader.tensors)
    index, sources, tensors, stub = {}, [], [], bytearray(blob[:data])
    for t in sorted(reader.tensors, key=lambda t: t.data_offset):
        offset, size = int(t.data_offset), int(t.n_bytes)
        raw, kind, width = blob[offset : offset + size], KINDS.get(t.tensor_type.name), int(t.shape[0])
        pairs = None
        if kind and size > 1024 and len(t.shape) > 1:
            step = width * (4 if kind == "f32" else 2)
            if (kind, width) not in index:
                rows = index[kind, width] = {}
                for i, c in enumerate(candidates):
                    shape = weights[c["name"]][1]
                    if shape[-2 if c.get("transpose") else -1] == width:
                        r = materialise.gguf_rows(c, weights, kind)
                        for j in range(r.shape[0]):
                            rows.setdefault(r[j].tobytes(), (i, j))
            pairs = [index[kind, width].get(raw[a : a + step]) for a in range(0, size, step)]
        entry = dict(name=t.name, type=kind or t.tensor_type.name, offset=offset - data, bytes=size)
        if pairs and None not in pairs:
            for i, _ in pairs:
                if candidates[i] not in sources:
                    sources.append(candidates[i])
            entry["rows"] = runs([(sources.index(candidates[i]), j) for i, j in pairs])
        else:
            entry["literal"] = len(stub)
            stub += raw
        tensors.append(entry)
    with open(f"{out}/stub.gguf", "wb") as f:
        f.write(stub)
    line = lambda x: json.dumps(x, separators=(",", ":"))  # noqa: E731
    head = dict(case=case, size=len(blob), data=data, sha256=hashlib.sha256(blob).hexdigest())
    with open(f"{out}/gguf.json", "w") as f:
        f.write(
            line(head)[:-1]
            + ',\n"sources":[\n'
            + ",\n".join(map(line, sources))
            + '\n],\n"tensors":[\n'
            + ",\n".join(map(line, tensors))
            + "\n]}\n"
        )
    assert materialise.load_gguf(out) == blob, "the compact form does not give the converter's bytes back"
    literal = [(t["name"], t["bytes"]) for t in tensors if "literal" in t and t["bytes"] > 4096]
    return len(blob), literal


def make(conv, item, root, check):
    fam, kind = item.split(":")
    out = f"{root}/gguf/{fam}.{kind}"
    shutil.rmtree(out, ignore_errors=True)
    case = f"../../{fam}"
    if fam in OVERRIDES:
        original = core.FAMILIES[fam]

        def patched(v):
            spec = original(v)
            spec.config.update(OVERRIDES[fam])
            return spec

        core.FAMILIES[f"{fam}.{kind}"] = patched
        core.make_family(f"{fam}.{kind}", core.Variant("open"), f"{root}/gguf", log=lambda s: None)
        case = "."
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        materialise.materialise(os.path.join(out, case), f"{tmp}/src")
        conv.run(f"{tmp}/src", f"{tmp}/model.gguf", kind)
        full, literal = compact(conv.gguf, f"{tmp}/model.gguf", os.path.join(out, case), case, out)
        diff = conv.check(f"{tmp}/src", os.path.join(out, case, "golden.safetensors"), tmp) if check else None
    size = sum(os.path.getsize(f"{out}/{f}") for f in os.listdir(out))
    return f"{full / 1000:6.1f} -> {size / 1000:5.1f} kB  llama.cpp {'unchecked' if diff is None else f'{diff:.1e}'} {literal or ''}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llamacpp", required=True)
    ap.add_argument("--out", default=os.path.join(ROOT, "..", "..", "goldens"))
    ap.add_argument("--only")
    ap.add_argument("--no-check", action="store_true")
    a = ap.parse_args()
    conv = Converter(os.path.abspath(a.llamacpp))
    check, failed = not a.no_check and os.path.exists(conv.logits), []
    items = a.only.split(",") if a.only else DEFAULT
    for item in items:
        try:
            print("ok  ", f"{item:26s}", make(conv, item, a.out, check), flush=True)
        except Exception as e:
            failed.append(item)
            print("FAIL", item, f"{type(e).__name__}: {str(e)[:200]}", flush=True)
            if a.only:
                raise
    print(f"{len(items)} GGUF cases, failed: {failed}")


if __name__ == "__main__":
    main()
