#!/usr/bin/env python3
"""LoRA adapters that PEFT saves for tiny goldens, with the logits of the base with them.

  make_lora.py [--out DIR] [CASE ...]

<out>/lora/<case>/ has one folder an adapter as PEFT saves it, with random A and B, and golden.safetensors: input_ids,
and logits of the base with all adapters, the first at scale 1 and the second at 0.5. <case> is <base>.<kind>; the base is
the golden of that name.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
import torch  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = {
    "llama3.plain": [dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])],
    "llama3.all": [
        dict(
            r=3,
            lora_alpha=6,
            target_modules=ALL,
            use_rslora=True,
            alpha_pattern={"k_proj": 12},
            rank_pattern={"model.layers.1.mlp.up_proj": 2},
        )
    ],
    "llama3.two": [
        dict(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"]),
        dict(r=2, lora_alpha=2, target_modules=["q_proj", "gate_proj", "lm_head"]),
    ],
    "llama3.dora": [dict(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], use_dora=True)],
    "llama3.embedding": [dict(r=2, lora_alpha=4, target_modules=["embed_tokens", "o_proj"])],
    "gpt2.turned": [dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)],
    # What GGUF's converter cuts, permutes or brings in another order.
    "mamba2.dora": [dict(r=4, lora_alpha=8, target_modules=["in_proj"], use_dora=True)],
    "jamba.dora": [
        dict(r=2, lora_alpha=4, target_modules=["in_proj", "x_proj", "out_proj", "q_proj", "down_proj"], use_dora=True)
    ],
    "granitemoehybrid.dora": [
        dict(r=2, lora_alpha=4, target_modules=["in_proj", "q_proj", "k_proj", "input_linear"], use_dora=True)
    ],
    "qwen3_next.two": [
        dict(r=4, lora_alpha=8, target_modules=["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "o_proj"]),
        dict(r=2, lora_alpha=2, target_modules=["in_proj_qkvz", "q_proj", "k_proj"], use_dora=True),
    ],
    "qwen3_5.dora": [
        dict(
            r=2,
            lora_alpha=4,
            target_modules=["in_proj_qkv", "in_proj_z", "in_proj_a", "out_proj", "q_proj", "up_proj"],
            use_dora=True,
        )
    ],
}
SCALES = [1.0, 0.5]


def randomise(model, seed):
    gen = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        if "lora_magnitude" in name:
            p.data.mul_(1 + 0.2 * torch.rand(p.shape, generator=gen))
        elif "lora_" in name:
            p.data = 0.15 * torch.randn(p.shape, generator=gen)


def make(case, adapters, out):
    base = case.split(".")[0]
    with tempfile.TemporaryDirectory() as tmp:
        script = [sys.executable, f"{ROOT}/materialise.py"]
        subprocess.run([*script, f"{ROOT}/../../goldens/{base}", tmp], check=True)

        def load():
            return AutoModelForCausalLM.from_pretrained(tmp, dtype=torch.float32, attn_implementation="eager").eval()

        folders = []
        for i, kind in enumerate(adapters):
            torch.manual_seed(i)
            model = get_peft_model(load(), LoraConfig(task_type="CAUSAL_LM", **kind))
            randomise(model, 100 + i)
            folder = f"{out}/lora/{case}/{i}"
            model.save_pretrained(folder, save_embedding_layers=False)
            os.remove(f"{folder}/README.md")
            config = json.load(open(f"{folder}/adapter_config.json"))
            config["base_model_name_or_path"] = base
            json.dump(config, open(f"{folder}/adapter_config.json", "w"), indent=1, sort_keys=True)
            folders.append(folder)
        model = load()
        for folder, scale in zip(folders, SCALES):
            wrapped = PeftModel.from_pretrained(model, folder)
            for module in wrapped.modules():
                if scale != 1 and hasattr(module, "scaling") and isinstance(module.scaling, dict):
                    module.scaling = {name: s * scale for name, s in module.scaling.items()}
            # One adapter is merged so that the other is over what is left.
            model = wrapped if len(folders) == 1 else wrapped.merge_and_unload()
        ids = torch.arange(3, 40).remainder(256).unsqueeze(0)
        with torch.no_grad():
            logits = model(ids).logits[0].contiguous()
        tensors = {"input_ids": ids[0].to(torch.int32).contiguous(), "logits": logits}
        save_file(tensors, f"{out}/lora/{case}/golden.safetensors")
        print(case, logits.std().item())


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--out", default=f"{ROOT}/../../goldens")
    args.add_argument("cases", nargs="*", default=list(CASES))
    args = args.parse_args()
    for case in args.cases:
        make(case, CASES[case], args.out)


if __name__ == "__main__":
    main()
