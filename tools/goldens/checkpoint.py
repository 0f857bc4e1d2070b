"""Checkpoints as the hub has them: built, written, loaded by transformers.

The checkpoint, with the hub's tensor names, is the source of truth: its tensors get a recipe or literal values, and
the model that produces the goldens is always one that transformers loaded from such a checkpoint.
"""
import json
import os
import shutil

import materialise
import torch
from safetensors.torch import load_file, save_file
from tensors import raw
from transformers import AutoConfig


def write_json(path, obj):
    with open(path, "w") as f:
        json.dump(obj, f, indent=2, default=str)
        f.write("\n")


def write_weights_json(path, weights):
    rows = ",\n".join(json.dumps(e, separators=(",", ":")) for e in weights.entries())
    with open(path, "w") as f:
        f.write(f'{{"seed":"{weights.seed}","tensors":[\n{rows}\n]}}\n')


def build(spec, directory, seed):
    """A model with transformers' own initialisation: it supplies names, shapes and defaults."""
    write_json(f"{directory}/config.json", spec.config)
    cfg = AutoConfig.from_pretrained(directory)
    torch.manual_seed(seed)
    make = getattr(spec.auto, "from_config", None) or spec.auto._from_config
    model = make(cfg, attn_implementation="eager", dtype=torch.float32)
    model.tied_golden = any(bool(getattr(c, "tie_word_embeddings", False)) for c in (cfg, cfg.get_text_config()))
    return model


def saved_state(model, directory):
    model.save_pretrained(f"{directory}/saved")
    state = load_file(f"{directory}/saved/model.safetensors")
    shutil.rmtree(f"{directory}/saved")
    return state


def eager(model):
    for m in model.modules():
        c = getattr(m, "config", None)
        for k in ("_attn_implementation_internal", "_experts_implementation_internal"):
            if hasattr(c, k):
                setattr(c, k, "eager")


def load(spec, checkpoint):
    """Load a published checkpoint with transformers, through its twin where the hub layout needs remote code."""
    if spec.to_hub or spec.hub_config:
        state = load_file(f"{checkpoint}/model.safetensors")
        write_json(f"{checkpoint}/config.json", spec.config)
        twin = spec.to_twin(state) if spec.to_twin else state
        again = spec.to_hub(twin) if spec.to_hub else twin
        same = again.keys() == state.keys() and all(torch.equal(again[n], state[n]) for n in state)
        assert same or not spec.invertible, "to_hub(to_twin) differs"
        save_file({n: t.contiguous().clone() for n, t in twin.items()}, f"{checkpoint}/model.safetensors", {"format": "pt"})
    model, info = spec.auto.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    bad = {k: v for k, v in info.items() if v and k in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")}
    assert not bad, f"reload: {bad}"
    eager(model)
    return model.eval()


def load_weights(spec, weights, directory):
    os.makedirs(directory, exist_ok=True)
    write_json(f"{directory}/config.json", spec.hub_config or spec.config)
    materialise.write_safetensors(f"{directory}/model.safetensors", weights.expand(), {"format": "pt"})
    return load(spec, directory)


def write_case(case, config, weights, golden=None):
    write_json(f"{case}/config.json", config)
    write_weights_json(f"{case}/weights.json", weights)
    tensors = {f"weight:{n}": raw(t) for n, t in weights.literals.items()}
    materialise.write_safetensors(f"{case}/golden.safetensors", tensors | {n: raw(t) for n, t in (golden or {}).items()})


def load_case(spec, case, directory):
    shutil.rmtree(directory, ignore_errors=True)
    materialise.materialise(case, directory)
    model = load(spec, directory)
    shutil.rmtree(directory)
    return model
