"""One case from one family: seeds are tried until everything that a golden promises holds."""
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import materialise
import numpy as np
import torch
import transformers
from checkpoint import build, load, load_case, load_weights, saved_state, write_case, write_json
from init import around_default, fan_in, fixed, initialise, keep_default
from run import full_logits, greedy, record_hidden
from safetensors.torch import load_file
from spec import FAMILIES, Spec, Variant, family
from tensors import raw

__all__ = [
    "FAMILIES", "Spec", "Variant", "around_default", "build", "calibrate", "compare_logits", "family", "family_seed", "fan_in",
    "fixed", "full_logits", "greedy", "initialise", "keep_default", "load", "load_case", "load_weights", "make_family",
    "prompts", "raw", "saved_state", "verify_family", "write_case", "write_json",
]

ATTEMPTS = 12                         # seeds tried before a family is given up


def family_seed(name, variant, attempt):
    h = hashlib.sha256(f"compact/{name}/{variant}/{attempt}".encode()).digest()
    return int.from_bytes(h[:8], "little")


def prompts(spec, v, seed):
    c = spec.config
    vocab = c.get("vocab_size") or c.get("text_config", {}).get("vocab_size")
    rng = np.random.default_rng(seed)
    return [rng.integers(5, vocab - 1, size=n).tolist() for n in v.prompt_lens]


def make_family(name, v, root, hidden_root=None, log=print):
    spec = FAMILIES[name](v)
    case, last = os.path.join(root, name), None
    for attempt in range(ATTEMPTS):
        shutil.rmtree(case, ignore_errors=True)
        os.makedirs(case)
        try:
            with tempfile.TemporaryDirectory() as tmp:
                meta, info = attempt_family(name, spec, v, case, hidden_root, tmp, attempt)
            size = sum(os.path.getsize(f"{case}/{f}") for f in os.listdir(case))
            log(f"ok   {name:26s} seed#{attempt} {size / 1000:6.1f} kB std {meta['logits_std']:.2f} "
                f"margin {min(meta['greedy_margin_min']):.4f} {info}")
            return meta
        except AssertionError as e:
            last = e
            if "retry" not in str(e):
                break
    shutil.rmtree(case, ignore_errors=True)
    raise RuntimeError(f"{name}: {last}")


def calibrate(spec, weights, prompt, tmp):
    """Rescale the head's recipe until the logits spread as wanted."""
    for _ in range(4):
        std = float(full_logits(load_weights(spec, weights, f"{tmp}/try"), prompt).std())
        assert math.isfinite(std), "retry: not finite"
        f = spec.target_std / max(std, 1e-6)
        if 0.8 < f < 1.25:
            return
        weights.scale_head(min(max(f, 0.1), 10.0))


def attempt_family(name, spec, v, case, hidden_root, tmp, attempt):
    seed = family_seed(name, v.name, attempt)
    ids = prompts(spec, v, seed)
    model = build(spec, tmp, seed)
    state = saved_state(model, tmp)
    weights = initialise(model, spec.to_hub(state) if spec.to_hub else state, spec, seed)
    del model
    calibrate(spec, weights, ids[0], tmp)

    published = spec.hub_config or spec.config
    write_case(case, published, weights)
    model = load_case(spec, case, f"{tmp}/case")

    tensors, hidden, margins, uniq, diffs, stds = {}, {}, [], [], [], []
    for i, p in enumerate(ids):
        lg = full_logits(model, p)
        assert torch.isfinite(lg).all(), "retry: not finite"
        out, mg, steps, diff = greedy(model, p, spec.check_cache, spec.cache_tol)
        assert float(mg.min()) > spec.margin, f"retry: margin {float(mg.min())}"
        margins.append(round(float(mg.min()), 6))
        uniq.append(len(set(out)))
        stds.append(round(float(lg.std()), 4))
        diffs.append(diff)
        tensors[f"input_ids_{i}"] = torch.tensor(p, dtype=torch.int32)
        tensors[f"logits_{i}"] = lg
        tensors[f"greedy_{i}"] = torch.tensor(out, dtype=torch.int32)
        tensors[f"greedy_margin_{i}"] = mg
        hidden[f"greedy_logits_{i}"] = steps
    hidden.update({f"hidden_0_{k}": t for k, t in record_hidden(model, ids[0]).items()})
    assert 0.3 < stds[0] < 8, f"retry: std {stds[0]}"
    assert min(uniq) >= 3, f"retry: greedy output too repetitive {uniq}"
    del model

    write_case(case, published, weights, tensors)
    reload_diff = compare_logits(load_case(spec, case, f"{tmp}/case"), case)
    assert reload_diff < 1e-5, f"reload differs by {reload_diff}"
    if hidden_root:
        os.makedirs(hidden_root, exist_ok=True)
        materialise.write_safetensors(f"{hidden_root}/{name}.safetensors", {k: raw(t) for k, t in hidden.items()})

    generated = sum(math.prod(s) for s, _, _ in weights.recipes.values())
    literal = sum(t.numel() for t in weights.literals.values())
    meta = dict(family=name, notes=spec.notes, variant=v.name, attempt=attempt, model_type=published.get("model_type"),
                dtype=spec.dtype, prompt_lens=list(v.prompt_lens), params_generated=generated, params_literal=literal,
                logits_std=stds[0], greedy_margin_min=margins, greedy_unique=uniq,
                versions=dict(transformers=transformers.__version__, torch=torch.__version__, numpy=np.__version__))
    write_json(f"{case}/meta.json", meta)
    cache = "unchecked" if diffs[0] is None else f"{max(diffs):.1e}"
    return meta, f"cache {cache} reload {reload_diff:.1e} params {generated}+{literal} uniq {uniq}"


def compare_logits(model, case):
    """Largest difference between the recorded logits and the model's; the recorded greedy prefix must hold too."""
    t, worst = load_file(f"{case}/golden.safetensors"), 0.0
    for i in (0, 1):
        lg = full_logits(model, t[f"input_ids_{i}"].tolist())
        worst = max(worst, float((lg - t[f"logits_{i}"]).abs().max()))
        assert int(lg[-1].argmax()) == int(t[f"greedy_{i}"][0])
    return worst


def verify_family(name, v, root, log=print):
    """materialise.py as a separate process, then transformers on what it wrote."""
    spec, case = FAMILIES[name](v), os.path.join(root, name)
    with open(f"{case}/config.json") as f:
        assert json.load(f) == json.loads(json.dumps(spec.hub_config or spec.config, default=str)), "config.json is not this generator's"
    with tempfile.TemporaryDirectory() as tmp:
        tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "materialise.py")
        subprocess.run([sys.executable, tool, case, tmp], check=True)
        diff = compare_logits(load(spec, tmp), case)
    assert diff < 1e-5, f"logits differ by {diff}"
    log(f"ok   {name:26s} logits {diff:.1e}")
