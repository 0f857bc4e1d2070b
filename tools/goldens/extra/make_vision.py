#!/usr/bin/env python3
"""Vision-language goldens.

  make_vision.py [--variant open|held] [--out DIR] [--only NAME,NAME]

<out>/vision/<case>/ is a case as in FORMAT.md with other recorded data: every model input (input_ids, pixel_values,
grids ...), image_features (what replaces the image tokens), M-RoPE positions where the family has them, logits [T,V]
and greedy_uncached (8 ids by recomputation).
"""

import argparse
import inspect
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, ROOT)
import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForImageTextToText  # noqa: E402

import core  # noqa: E402
from core import Spec  # noqa: E402
from families.qwen import qwen3_5  # noqa: E402

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def text(v, **kw):
    d = dict(
        vocab_size=v(256, 288),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-6,
        max_position_embeddings=512,
        rope_theta=10000.0,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    d.update(kw)
    return d


def ids_with_image(v, rng, img, n, pre=7, post=9, start=None, end=None):
    a = rng.integers(20, v(250, 280), pre).tolist()
    b = rng.integers(20, v(250, 280), post).tolist()
    return a + ([start] if start is not None else []) + [img] * n + ([end] if end is not None else []) + b


@case
def gemma3_vl(v):
    S, P = v(32, 48), 8
    tc = text(
        v,
        model_type="gemma3_text",
        head_dim=24,
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=24,
        sliding_window=v(8, 6),
        sliding_window_pattern=3,
        rope_theta=1000000.0,
        rope_local_base_freq=10000.0,
        rope_scaling=dict(factor=8.0, rope_type="linear"),
        num_hidden_layers=4,
        tie_word_embeddings=True,
    )
    n = 4 if v.held is False else 9
    c = dict(
        architectures=["Gemma3ForConditionalGeneration"],
        model_type="gemma3",
        text_config=tc,
        vision_config=dict(
            model_type="siglip_vision_model",
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_channels=3,
            image_size=S,
            patch_size=P,
            hidden_act="gelu_pytorch_tanh",
            layer_norm_eps=1e-6,
            vision_use_head=False,
        ),
        mm_tokens_per_image=n,
        boi_token_index=5,
        eoi_token_index=6,
        image_token_index=7,
        torch_dtype="bfloat16",
        eos_token_id=[1, 106],
    )

    def inputs(rng):
        ids = ids_with_image(v, rng, 7, n, start=5, end=6)
        t = torch.tensor([ids])
        return dict(
            input_ids=t,
            token_type_ids=(t == 7).long(),
            pixel_values=torch.tensor(rng.standard_normal((1, 3, S, S)), dtype=torch.float32).clamp(-1, 1),
        )

    return Spec(
        c,
        notes="SigLIP encoder -> average pool -> (1+w) RMSNorm -> projection; image tokens see each other both ways; text embeddings are scaled by sqrt(hidden), image features are not",
    ), inputs


def qwen_vl_inputs(v, rng, h, w, in_dim, img=9, start=8, end=10, merge=2):
    n = h * w // merge**2
    ids = ids_with_image(v, rng, img, n, start=start, end=end)
    t = torch.tensor([ids])
    return dict(
        input_ids=t,
        mm_token_type_ids=(t == img).long(),
        pixel_values=torch.tensor(rng.standard_normal((h * w, in_dim)), dtype=torch.float32),
        image_grid_thw=torch.tensor([[1, h, w]]),
    )


@case
def qwen2_vl(v):
    c = dict(
        architectures=["Qwen2VLForConditionalGeneration"],
        model_type="qwen2_vl",
        **text(v, rope_scaling=dict(type="mrope", mrope_section=[2, 3, 3]), rope_theta=1000000.0),
        vision_config=dict(
            model_type="qwen2_vl",
            depth=2,
            embed_dim=32,
            hidden_size=64,
            mlp_ratio=2,
            num_heads=2,
            in_channels=3,
            in_chans=3,
            patch_size=4,
            spatial_merge_size=2,
            temporal_patch_size=2,
            hidden_act="quick_gelu",
        ),
        image_token_id=9,
        video_token_id=11,
        vision_start_token_id=8,
        vision_end_token_id=10,
        vision_token_id=12,
        torch_dtype="bfloat16",
    )
    return Spec(
        c, notes="2-D rotary vision tower, LayerNorm, quick_gelu, 2x2 merger; M-RoPE sections [t,h,w] on the text side"
    ), lambda rng: qwen_vl_inputs(v, rng, v(4, 6), v(6, 4), 3 * 2 * 4 * 4)


@case
def qwen2_5_vl(v):
    c = dict(
        architectures=["Qwen2_5_VLForConditionalGeneration"],
        model_type="qwen2_5_vl",
        **text(v, rope_scaling=dict(type="mrope", mrope_section=[2, 3, 3]), rope_theta=1000000.0),
        vision_config=dict(
            model_type="qwen2_5_vl",
            depth=3,
            hidden_size=32,
            intermediate_size=48,
            num_heads=2,
            in_channels=3,
            in_chans=3,
            patch_size=4,
            spatial_merge_size=2,
            temporal_patch_size=2,
            hidden_act="silu",
            out_hidden_size=64,
            window_size=16,
            fullatt_block_indexes=[1],
            tokens_per_second=2,
        ),
        image_token_id=9,
        video_token_id=11,
        vision_start_token_id=8,
        vision_end_token_id=10,
        vision_token_id=12,
        torch_dtype="bfloat16",
    )
    return Spec(
        c, notes="window attention in the vision tower (full in fullatt_block_indexes), RMSNorm + SwiGLU"
    ), lambda rng: qwen_vl_inputs(v, rng, v(8, 12), v(12, 8), 3 * 2 * 4 * 4)


@case
def qwen3_vl(v):
    tc = text(
        v,
        model_type="qwen3_vl_text",
        head_dim=16,
        attention_bias=False,
        rope_theta=5000000.0,
        rope_scaling=dict(rope_type="default", mrope_section=[4, 2, 2], mrope_interleaved=True),
        tie_word_embeddings=True,
    )
    c = dict(
        architectures=["Qwen3VLForConditionalGeneration"],
        model_type="qwen3_vl",
        text_config=tc,
        vision_config=dict(
            model_type="qwen3_vl",
            depth=3,
            hidden_size=32,
            hidden_act="gelu_pytorch_tanh",
            intermediate_size=48,
            num_heads=2,
            in_channels=3,
            patch_size=4,
            spatial_merge_size=2,
            temporal_patch_size=2,
            out_hidden_size=64,
            num_position_embeddings=16,
            deepstack_visual_indexes=[0, 2],
        ),
        image_token_id=9,
        video_token_id=11,
        vision_start_token_id=8,
        vision_end_token_id=10,
        tie_word_embeddings=True,
        torch_dtype="bfloat16",
    )
    return Spec(
        c, notes="interpolated learned positions + rotary, deepstack features added to the first text layers, interleaved M-RoPE"
    ), lambda rng: qwen_vl_inputs(v, rng, v(4, 6), v(6, 4), 3 * 2 * 4 * 4)


@case
def qwen3_5_vl(v):
    tc = qwen3_5(v).config
    tc = {k: x for k, x in tc.items() if k not in ("architectures",)}
    c = dict(
        architectures=["Qwen3_5ForConditionalGeneration"],
        model_type="qwen3_5",
        text_config=tc,
        vision_config=dict(
            model_type="qwen3_5",
            depth=2,
            hidden_size=32,
            hidden_act="gelu_pytorch_tanh",
            intermediate_size=48,
            num_heads=2,
            in_channels=3,
            patch_size=4,
            spatial_merge_size=2,
            temporal_patch_size=2,
            out_hidden_size=tc["hidden_size"],
            num_position_embeddings=16,
            deepstack_visual_indexes=[],
        ),
        image_token_id=9,
        video_token_id=11,
        vision_start_token_id=8,
        vision_end_token_id=10,
        tie_word_embeddings=True,
        torch_dtype="bfloat16",
    )
    return Spec(
        c, notes="the layout real Qwen3.5 checkpoints use: nested text_config, model.language_model.* and model.visual.* names"
    ), lambda rng: qwen_vl_inputs(v, rng, v(4, 6), v(6, 4), 3 * 2 * 4 * 4)


def idefics_like(v, arch, mt):
    S, P, sc = v(32, 48), 8, 2
    n = (S // P // sc) ** 2
    tc = text(v, model_type="llama", head_dim=16)
    c = dict(
        architectures=[arch],
        model_type=mt,
        text_config=tc,
        vision_config=dict(
            model_type=mt + "_vision" if mt == "smolvlm" else "idefics3_vision",
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_channels=3,
            image_size=S,
            patch_size=P,
            hidden_act="gelu_pytorch_tanh",
            layer_norm_eps=1e-6,
        ),
        scale_factor=sc,
        image_token_id=9,
        tie_word_embeddings=False,
        vocab_size=v(256, 288),
        pad_token_id=0,
        torch_dtype="bfloat16",
    )

    def inputs(rng):
        ids = ids_with_image(v, rng, 9, n, start=8, end=8) + [8] + [9] * n + [8] + rng.integers(20, 250, 4).tolist()
        pv = torch.tensor(rng.standard_normal((1, 2, 3, S, S)), dtype=torch.float32).clamp(-1, 1)
        m = torch.ones(1, 2, S, S, dtype=torch.bool)
        m[0, 1, S - P :, :] = False  # a padded second image
        pv[0, 1, :, S - P :, :] = 0
        return dict(input_ids=torch.tensor([ids]), pixel_values=pv, pixel_attention_mask=m)

    return Spec(
        c, notes="SigLIP with fractional position buckets from the pixel mask, pixel shuffle (scale_factor), linear connector"
    ), inputs


@case
def smolvlm(v):
    return idefics_like(v, "SmolVLMForConditionalGeneration", "smolvlm")


@case
def idefics3(v):
    return idefics_like(v, "Idefics3ForConditionalGeneration", "idefics3")


@case
def llava(v):
    S, P = v(32, 48), 8
    n = (S // P) ** 2
    c = dict(
        architectures=["LlavaForConditionalGeneration"],
        model_type="llava",
        text_config=text(v, model_type="llama", head_dim=16),
        vision_config=dict(
            model_type="clip_vision_model",
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_channels=3,
            image_size=S,
            patch_size=P,
            hidden_act="quick_gelu",
            layer_norm_eps=1e-5,
            projection_dim=32,
        ),
        image_token_index=9,
        image_seq_length=n,
        projector_hidden_act="gelu",
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        torch_dtype="float16",
        tie_word_embeddings=False,
    )

    def inputs(rng):
        return dict(
            input_ids=torch.tensor([ids_with_image(v, rng, 9, n)]),
            pixel_values=torch.tensor(rng.standard_normal((1, 3, S, S)), dtype=torch.float32),
        )

    return Spec(c, dtype="f16", notes="CLIP tower, second-to-last layer, class token dropped, 2-layer gelu projector"), inputs


@case
def mistral3_pixtral(v):
    P = 8
    h, w = v((32, 48), (48, 32))
    n = (h // P // 2) * (w // P // 2)
    c = dict(
        architectures=["Mistral3ForConditionalGeneration"],
        model_type="mistral3",
        text_config=text(v, model_type="mistral", head_dim=24, sliding_window=None, rope_theta=1e6),
        vision_config=dict(
            model_type="pixtral",
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=2,
            num_attention_heads=4,
            head_dim=12,
            num_channels=3,
            image_size=64,
            patch_size=P,
            hidden_act="silu",
            rope_theta=10000.0,
            attention_dropout=0.0,
        ),
        image_token_index=9,
        spatial_merge_size=2,
        projector_hidden_act="gelu",
        vision_feature_layer=-1,
        multimodal_projector_bias=False,
        torch_dtype="bfloat16",
        tie_word_embeddings=False,
    )

    def inputs(rng):
        return dict(
            input_ids=torch.tensor([ids_with_image(v, rng, 9, n)]),
            pixel_values=torch.tensor(rng.standard_normal((1, 3, h, w)), dtype=torch.float32),
            image_sizes=torch.tensor([[h, w]]),
        )

    return Spec(c, notes="Pixtral tower (2-D rope, RMSNorm, SwiGLU), patch merger, Mistral Small 3.1 style"), inputs


def logits(m, inp):
    return m(**inp, use_cache=False).logits


def image_features(m, inp):
    """What replaces the image tokens, and M-RoPE positions [3, T] for the families that compute them."""
    out = {}
    known = set(inspect.signature(type(m).get_image_features).parameters) | set(
        inspect.signature(type(m.model).get_image_features).parameters
    )
    f = m.model.get_image_features(**{k: x for k, x in inp.items() if k in known and k != "input_ids"})
    f = getattr(f, "pooler_output", f)
    f = torch.cat(list(f), 0) if isinstance(f, (list, tuple)) else f
    out["image_features"] = f.float().reshape(-1, f.shape[-1])
    if hasattr(m.model, "get_rope_index"):
        known = inspect.signature(m.model.get_rope_index).parameters
        pos, delta = m.model.get_rope_index(
            **{k: x for k, x in inp.items() if k in known and k in ("input_ids", "image_grid_thw", "mm_token_type_ids")}
        )
        out |= dict(mrope_position_ids=pos.reshape(pos.shape[0], -1).int(), mrope_delta=delta.reshape(-1).int())
    return out


@torch.no_grad()
def make(name, v, root):
    spec, make_inputs = CASES[name](v)
    spec.auto, case = AutoModelForImageTextToText, f"{root}/{name}"
    for attempt in range(core.ATTEMPTS):
        shutil.rmtree(case, ignore_errors=True)
        os.makedirs(case)
        seed = core.family_seed("vision/" + name, v.name, attempt)
        with tempfile.TemporaryDirectory() as tmp:
            model = core.build(spec, tmp, seed)
            weights = core.initialise(model, core.saved_state(model, tmp), spec, seed)
            accepted = set(inspect.signature(type(model).forward).parameters)
            inp = {k: x for k, x in make_inputs(np.random.default_rng(seed)).items() if k in accepted}
            weights.scale_head(spec.target_std / float(logits(core.load_weights(spec, weights, f"{tmp}/try"), inp).std()))
            core.write_case(case, spec.config, weights)
            m = core.load_case(spec, case, f"{tmp}/case")
            lg = logits(m, inp)
            features = image_features(m, inp)
            blind = float((logits(m, inp | dict(pixel_values=-inp["pixel_values"])) - lg)[0, -1].abs().max())
            cur, out, margins = dict(inp), [], []
            for _ in range(8):
                last = logits(m, cur)[0, -1].float()
                top = last.topk(2).values
                margins.append(float(top[0] - top[1]))
                out.append(int(last.argmax()))
                cur["input_ids"] = torch.cat([cur["input_ids"], torch.tensor([out[-1:]])], 1)
                for k in ("token_type_ids", "mm_token_type_ids"):
                    if k in cur:
                        cur[k] = torch.cat([cur[k], torch.zeros(1, 1, dtype=cur[k].dtype)], 1)
            if min(margins) < 1e-3 or blind < 0.05 or 9 in out:  # 9 is the image token of most cases
                continue
            golden = {k: (x.int() if x.dtype in (torch.int64, torch.bool) else x) for k, x in inp.items()}
            golden |= features | dict(logits=lg[0].float(), greedy_uncached=torch.tensor(out, dtype=torch.int32))
            core.write_case(case, spec.config, weights, golden)
            diff = float((logits(core.load_case(spec, case, f"{tmp}/case"), inp) - lg).abs().max())
            assert diff < 1e-5, f"reload differs by {diff}"
        core.write_json(
            f"{case}/meta.json",
            dict(
                family=name,
                notes=spec.notes,
                model_type=spec.config["model_type"],
                dtype=spec.dtype,
                inputs={k: list(x.shape) for k, x in inp.items()},
                logits_std=round(float(lg.std()), 4),
                greedy_margin_min=round(min(margins), 6),
                effect_of_image_on_last_logits=round(blind, 4),
                position_ids_note="mrope positions are computed by the model from image_grid_thw",
            ),
        )
        size = sum(os.path.getsize(f"{case}/{f}") for f in os.listdir(case))
        print(
            f"ok   {name:20s} {size / 1000:6.1f} kB std {float(lg.std()):.2f} margin {min(margins):.4f} image effect {blind:.2f} T {lg.shape[1]}",
            flush=True,
        )
        return
    raise RuntimeError("no good seed")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--variant", default="open", choices=["open", "held"])
    ap.add_argument("--out")
    ap.add_argument("--only")
    a = ap.parse_args()
    v = core.Variant(a.variant)
    root = os.path.join(a.out or os.path.join(ROOT, "..", "..", "goldens"), "vision")
    for name in a.only.split(",") if a.only else CASES:
        try:
            make(name, v, root)
        except Exception as e:
            print("FAIL", name, type(e).__name__, str(e)[:300], flush=True)
            if a.only:
                raise


if __name__ == "__main__":
    main()
