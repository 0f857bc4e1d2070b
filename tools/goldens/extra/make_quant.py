#!/usr/bin/env python3
"""Quantised tiny checkpoints (GPTQ, AWQ, FP8, MXFP4, compressed-tensors, NF4, FP4) and a sharded one, with golden logits.

  make_quant.py [--variant open|held] [--out DIR] [--only NAME,NAME]

Every golden is transformers' fp32 forward on the dequantised weights, so an engine that dequantises exactly agrees to ~1e-5.
<out>/quant/<case>/ is a case as in FORMAT.md: quantised tensors are literal, embeddings and head generated.
Each case is read back through unpackers written independently of the packers, and its logits recomputed from that.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, ROOT)
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import core  # noqa: E402
import materialise  # noqa: E402
from families.common import llama_like  # noqa: E402
from families.mla import deepseek_v3  # noqa: E402
from families.moe import gpt_oss  # noqa: E402
from families.qwen import qwen3_moe  # noqa: E402

LINEARS = (
    *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    *("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
)


def llama(v, hidden=64, heads=4, kv=2, ffn=96, layers=2, dtype="f16", **kw):
    d = llama_like(
        v,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        intermediate_size=ffn,
        num_hidden_layers=layers,
        rope_theta=500000.0,
        **kw,
    )
    return core.Spec(d, dtype=dtype)


def wide(v, **kw):
    """In-features divisible by 128, for group size and block 128."""
    return llama(v, **(dict(hidden=128, ffn=128, kv=1, layers=1) | kw))


def experts(v):
    """Their widths, and those of heads together, are whole words and groups."""
    spec = qwen3_moe(v)
    spec.config.update(head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, num_hidden_layers=1)
    spec.dtype = "f16"
    return spec


def latent(v, **kw):
    """Widths are whole words and groups, those of a head's keys no whole group: latent attention."""
    spec = deepseek_v3(v)
    spec.config.update(q_lora_rank=64, kv_lora_rank=64, intermediate_size=96, moe_intermediate_size=64, num_hidden_layers=2, **kw)
    spec.dtype = "f16"
    return spec


# ---------------------------------------------------------------- one case


def make(root, v, name, spec, quantise, config, notes, unpack, quantize_config=None, shards=None):
    """quantise(name, weight, gen) -> (tensors, dequantised weight), or None for a weight kept as it is.
    Names are the hub's, so that experts are matrices of their own."""
    case = f"{root}/{name}"
    for attempt in range(core.ATTEMPTS):
        seed = core.family_seed(name, v.name, attempt)
        gen = torch.Generator().manual_seed(seed)
        shutil.rmtree(case, ignore_errors=True)
        os.makedirs(case)
        with tempfile.TemporaryDirectory() as tmp, torch.no_grad():
            ids = core.prompts(spec, v, seed)
            model = core.build(spec, tmp, seed)
            weights = core.initialise(model, core.saved_state(model, tmp), spec, seed)
            core.calibrate(spec, weights, ids[0], tmp)
            model = core.load_weights(spec, weights, f"{tmp}/float")
            plain = {n: t.float() for n, t in load_file(f"{tmp}/float/model.safetensors").items()}
            # In the order of the model's own names, then of what it holds in other shapes.
            names = [n for n in model.state_dict() if n in plain]
            for n in names + sorted(set(plain) - set(names)):
                done = quantise(n, plain[n], gen)
                if done:
                    weights.recipes.pop(n, None)
                    weights.literals.pop(n, None)
                    weights.literals.update(done[0])
                    plain[n] = done[1].float()
            golden, margins = record(load_plain(spec, plain, f"{tmp}/dequantised"), ids)
            if min(margins) < 1e-3:
                continue
            core.write_case(case, spec.config | config, weights, golden)
            if quantize_config:
                core.write_json(f"{case}/quantize_config.json", quantize_config)
            if shards:
                core.write_json(f"{case}/model.safetensors.index.json", shard_index(weights.expand(), shards))
            core.write_json(
                f"{case}/meta.json",
                dict(
                    family=name,
                    notes=notes,
                    variant=v.name,
                    model_type=spec.config["model_type"],
                    dtype=spec.dtype,
                    logits_std=round(float(golden["logits_0"].std()), 4),
                    greedy_margin_min=margins,
                ),
            )
            diff = read_back(spec, case, unpack, tmp)
            assert diff < 1e-5, f"{name}: read back differs by {diff}"
        size = sum(os.path.getsize(f"{case}/{f}") for f in os.listdir(case))
        print(f"ok   {name:34s} {size / 1000:6.1f} kB margin {min(margins):.4f} read back {diff:.1e}", flush=True)
        return
    raise RuntimeError(f"{name}: no seed gives clear margins")


def record(model, ids):
    golden, margins = {}, []
    for i, p in enumerate(ids):
        out, mg, _, _ = core.greedy(model, p, True)
        lg = core.full_logits(model, p)
        assert torch.isfinite(lg).all()
        golden |= {
            f"input_ids_{i}": torch.tensor(p, dtype=torch.int32),
            f"logits_{i}": lg,
            f"greedy_{i}": torch.tensor(out, dtype=torch.int32),
            f"greedy_margin_{i}": mg,
        }
        margins.append(round(float(mg.min()), 6))
    return golden, margins


def read_back(spec, case, unpack, tmp):
    """Materialise, dequantise with `unpack`, let transformers load the result, recompute the logits."""
    materialise.materialise(case, f"{tmp}/case")
    state = {}
    for f in sorted(os.listdir(f"{tmp}/case")):
        if f.endswith(".safetensors"):
            state.update(load_file(f"{tmp}/case/{f}"))
    state = {n: t.float() for n, t in unpack(state).items()}
    return core.compare_logits(load_plain(spec, state, f"{tmp}/plain"), case)


def load_plain(spec, state, directory):
    os.makedirs(directory)
    materialise.write_safetensors(
        f"{directory}/model.safetensors", {n: core.raw(t.contiguous()) for n, t in state.items()}, {"format": "pt"}
    )
    core.write_json(f"{directory}/config.json", spec.config)
    return core.load(spec, directory)


def is_linear(name):
    return name.endswith(".weight") and name.split(".")[-2] in LINEARS


def shard_index(tensors, limit):
    files, size, total = [[]], 0, 0
    for n, (_, _, data) in tensors.items():
        if size + len(data) > limit and files[-1]:
            files.append([])
            size = 0
        files[-1].append(n)
        size, total = size + len(data), total + len(data)
    names = [f"model-{i + 1:05d}-of-{len(files):05d}.safetensors" for i in range(len(files))]
    return dict(metadata=dict(total_size=total), weight_map={n: names[i] for i, f in enumerate(files) for n in f})


# ---------------------------------------------------------------- GPTQ and AWQ


def round_to_nearest(w, bits, group, sym, gen, desc_act, shared=None):
    """w [out, in] -> (q [in, out], zeros [G, out], scales [G, out] f16, g_idx [in])"""
    out_f, in_f = w.shape
    g = in_f if group == -1 else group
    maxq = 2**bits - 1
    g_idx = torch.arange(in_f, dtype=torch.int32) // g
    if desc_act:  # columns are assigned to groups in order of "activation size": any permutation is legal
        perm = torch.randperm(in_f, generator=gen)
        if shared:  # real quantisers order the matrices of one input by its activations, so alike
            perm = torch.randperm(in_f, generator=torch.Generator().manual_seed(shared))
        g_idx[perm] = g_idx.clone()
    q = torch.zeros(in_f, out_f, dtype=torch.int64)
    zeros, scales = torch.zeros(in_f // g, out_f, dtype=torch.int64), torch.zeros(in_f // g, out_f, dtype=torch.float16)
    for k in range(in_f // g):
        rows = (g_idx == k).nonzero().flatten()
        x = w.t()[rows].float()
        if sym:
            s = (x.abs().amax(0) * 2 / maxq).clamp(min=1e-6).half()
            z = torch.full((out_f,), (maxq + 1) // 2)
        else:
            lo, hi = x.amin(0).clamp(max=0), x.amax(0).clamp(min=0)
            s = ((hi - lo) / maxq).clamp(min=1e-6).half()
            z = torch.round(-lo / s.float()).clamp(1, maxq).long()  # >= 1: a zero of 0 wraps in the v1 format
        scales[k], zeros[k] = s, z
        q[rows] = torch.clamp(torch.round(x / s.float()) + z, 0, maxq).long()
    return q, zeros, scales, g_idx


def pack_rows(q, bits):  # [in, out] -> [in*bits/32, out]
    return pack_cols(q.t(), bits).t().contiguous()


def pack_cols(z, bits):  # [G, out] -> [G, out*bits/32], a stream of bits, lowest first
    z = z.numpy().astype(np.int64) & (2**bits - 1)
    stream = (z[..., None] >> np.arange(bits) & 1).reshape(z.shape[0], -1, 32)
    out = (stream << np.arange(32)).sum(-1).astype(np.uint32)
    return torch.from_numpy(out.view(np.int32).copy())


def fields(t, bits):  # int32 [..., n] -> [..., n * 32/bits], lowest bits first
    x = t.to(torch.int64) & 0xFFFFFFFF
    if bits == 3:  # 32 in three words: the 11th and the 22nd cross from one to the next
        a, b, c = x[..., 0::3], x[..., 1::3], x[..., 2::3]
        first = [a >> 3 * i & 7 for i in range(10)] + [(a >> 30 | b << 2) & 7]
        second = [b >> 1 + 3 * i & 7 for i in range(10)] + [(b >> 31 | c << 1) & 7]
        return torch.stack(first + second + [c >> 2 + 3 * i & 7 for i in range(10)], -1).flatten(-2)
    return torch.stack([x >> s & (2**bits - 1) for s in range(0, 32, bits)], -1).flatten(-2)


def dequantise(q, zeros, scales, g_idx):
    g = g_idx.long()
    return ((q - zeros[g]).float() * scales[g].float()).t().contiguous()  # [out, in]


def input_of(name):
    """A number for what a matrix multiplies: its layer, expert and place."""
    *outer, module, _ = name.split(".")
    place = {"q_proj": 1, "k_proj": 1, "v_proj": 1, "gate_proj": 2, "up_proj": 2, "down_proj": 3}.get(module, 4)
    return int("".join(n for n in outer if n.isdigit()) + f"{place}")


def gptq(root, v, name, bits, group, sym, desc_act, fmt, spec, notes="", alike=False, dynamic=None):
    """dynamic: by a part of a module's name, its bits, or 0 for one that is not quantised."""

    def bits_of(name):
        return next((own for part, own in (dynamic or {}).items() if part in name), bits)

    def quantise(n, w, gen):
        bits = bits_of(n)
        if not is_linear(n) or not bits:
            return None
        q, z, s, gi = round_to_nearest(w, bits, group, sym, gen, desc_act, input_of(n) if alike else None)
        pre = n[: -len(".weight")]
        stored = z - 1 if fmt == "gptq" else z
        return {
            f"{pre}.qweight": pack_rows(q, bits),
            f"{pre}.qzeros": pack_cols(stored, bits),
            f"{pre}.scales": s,
            f"{pre}.g_idx": gi,
        }, dequantise(q, z, s, gi)

    def unpack(state):
        out = {n: t for n, t in state.items() if n.rsplit(".", 1)[1] not in ("qweight", "qzeros", "scales", "g_idx")}
        for n in state:
            if n.endswith(".qweight"):
                pre = n[: -len(".qweight")]
                bits = bits_of(pre)
                q = fields(state[n].t(), bits).t()
                z = fields(state[pre + ".qzeros"], bits) + (1 if fmt == "gptq" else 0)
                g = state[pre + ".g_idx"].long()
                out[pre + ".weight"] = ((q - z[g]).float() * state[pre + ".scales"].float()[g]).t().contiguous()
        return out

    qc = dict(
        bits=bits,
        group_size=group,
        damp_percent=0.01,
        desc_act=desc_act,
        static_groups=False,
        sym=sym,
        true_sequential=True,
        lm_head=False,
        quant_method="gptq",
        checkpoint_format=fmt,
    )
    if dynamic:  # GPTQModel's: expressions of modules' names, those to leave out with a minus
        how = {f"+:.*{p}.*": dict(bits=own) for p, own in dynamic.items() if own}
        qc["dynamic"] = how | {f"-:.*{p}.*": {} for p, own in dynamic.items() if not own}
    plain = dict(qc)
    if fmt == "gptq_v2":
        qc |= dict(
            pack_dtype="int32",
            meta=dict(quantizer=["gptqmodel:2.2.0"], uri="https://github.com/modelcloud/gptqmodel", damp_auto_increment=0.0025),
        )
    else:
        qc |= dict(model_name_or_path=None, model_file_base_name=None, is_marlin_format=False)
        plain = dict(qc)
    make(
        root,
        v,
        name,
        spec,
        quantise,
        dict(quantization_config=qc, torch_dtype="float16"),
        f"GPTQ {bits}-bit group {group} sym={sym} desc_act={desc_act} format {fmt}{notes}",
        unpack,
        plain,
    )


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def awq_pack(q):  # [rows, out] -> [rows, out/8]
    q = q.numpy().astype(np.uint32)
    out = np.zeros((q.shape[0], q.shape[1] // 8), np.uint32)
    for i, o in enumerate(AWQ_ORDER):
        out |= q[:, o::8] << np.uint32(4 * i)
    return torch.from_numpy(out.view(np.int32).copy())


def awq(root, v, name, group, spec):
    def quantise(n, w, gen):
        if not is_linear(n):
            return None
        _, z, s, gi = round_to_nearest(w, 4, group, False, gen, False)
        z[0, :4] = 0  # AWQ has no off-by-one: zero may be 0
        q = torch.clamp(torch.round(w.t().float() / s.float()[gi.long()]) + z[gi.long()], 0, 15).long()
        pre = n[: -len(".weight")]
        return {f"{pre}.qweight": awq_pack(q), f"{pre}.qzeros": awq_pack(z), f"{pre}.scales": s}, dequantise(q, z, s, gi)

    def nibbles(t):  # AutoAWQ: column 8c + j comes from bits 4 * [0, 4, 1, 5, 2, 6, 3, 7][j]
        x = t.to(torch.int64) & 0xFFFFFFFF
        return torch.stack([x >> 4 * s & 15 for s in (0, 4, 1, 5, 2, 6, 3, 7)], -1).flatten(-2)

    def unpack(state):
        out = {n: t for n, t in state.items() if n.rsplit(".", 1)[1] not in ("qweight", "qzeros", "scales")}
        for n in state:
            if n.endswith(".qweight"):
                pre = n[: -len(".qweight")]
                q, z, s = nibbles(state[n]), nibbles(state[pre + ".qzeros"]), state[pre + ".scales"].float()
                z, s = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (z, s))
                out[pre + ".weight"] = ((q - z).float() * s).t().contiguous()
        return out

    qc = dict(bits=4, group_size=group, modules_to_not_convert=None, quant_method="awq", version="gemm", zero_point=True)
    make(root, v, name, spec, quantise, dict(quantization_config=qc, torch_dtype="float16"), f"AWQ GEMM 4-bit group {group}", unpack)


# ---------------------------------------------------------------- FP8, MXFP4, compressed-tensors


def fp8(root, v, name, block=128, spec=None):
    spec = spec or wide(v, ffn=192, dtype="bf16")  # 192: the last block is partial

    def quantise(n, w, gen):
        if not is_linear(n):
            return None
        rows, cols = w.shape
        scale = torch.zeros(-(-rows // block), -(-cols // block))
        q, back = torch.zeros(rows, cols, dtype=torch.float8_e4m3fn), torch.zeros(rows, cols)
        for a in range(scale.shape[0]):
            for b in range(scale.shape[1]):
                part = (slice(a * block, (a + 1) * block), slice(b * block, (b + 1) * block))
                scale[a, b] = w[part].abs().max() / 448.0
                q[part] = (w[part] / scale[a, b]).to(torch.float8_e4m3fn)
                back[part] = q[part].float() * scale[a, b]
        return {n: q, n + "_scale_inv": scale}, back

    def unpack(state):
        out = {n: t for n, t in state.items() if not n.endswith("_scale_inv")}
        for n, s in state.items():
            if n.endswith("_scale_inv"):
                w = out[n[: -len("_scale_inv")]].float()
                full = s.repeat_interleave(block, 0)[: w.shape[0]].repeat_interleave(block, 1)[:, : w.shape[1]]
                out[n[: -len("_scale_inv")]] = w * full
        return out

    qc = dict(quant_method="fp8", fmt="e4m3", weight_block_size=[block, block], activation_scheme="dynamic")
    make(
        root,
        v,
        name,
        spec,
        quantise,
        dict(quantization_config=qc),
        "DeepSeek-V3 style FP8: weight F8_E4M3 [out,in], weight_scale_inv F32 per 128x128 block (multiplied); golden keeps activations in f32",
        unpack,
    )


FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4(root, v, name):
    spec = gpt_oss(v)
    spec.config.update(num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"], intermediate_size=32)

    def quantise(n, w, gen):
        if not n.endswith(("experts.gate_up_proj", "experts.down_proj")):
            return None
        w = w.transpose(1, 2)  # HF keeps [E, in, out]; the blocks run along `in`
        x = w.reshape(*w.shape[:-1], -1, 32)
        e = torch.floor(torch.log2(x.abs().amax(-1, keepdim=True).clamp(min=2**-20))) - 2
        idx = ((x / 2**e).unsqueeze(-1) - FP4).abs().argmin(-1)
        blocks = (idx[..., 0::2] | (idx[..., 1::2] << 4)).to(torch.uint8)
        back = (FP4[idx] * 2**e).reshape(w.shape).transpose(1, 2)
        return {n + "_blocks": blocks, n + "_scales": (e.squeeze(-1) + 127).to(torch.uint8)}, back

    def unpack(state):
        from transformers.integrations.mxfp4 import convert_moe_packed_tensors

        out = {n: t for n, t in state.items() if not n.endswith(("_blocks", "_scales"))}
        for n in state:
            if n.endswith("_blocks"):
                out[n[:-7]] = convert_moe_packed_tensors(state[n], state[n[:-7] + "_scales"], dtype=torch.float32).contiguous()
        return out

    qc = dict(
        quant_method="mxfp4",
        modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"],
    )
    make(
        root,
        v,
        name,
        spec,
        quantise,
        dict(quantization_config=qc),
        "gpt-oss MXFP4 experts: *_blocks U8 [E, out, in/32, 16] (low nibble first), *_scales U8 [E, out, in/32] exponent bias 127; gate_up rows interleave gate, up",
        unpack,
    )


def compressed(root, v, name, fmt, symmetric=True, group=32):
    packed, integer = fmt == "pack-quantized", fmt == "int-quantized"

    def quantise(n, w, gen):
        if not is_linear(n):
            return None
        pre = n[: -len(".weight")]
        if integer and not symmetric:  # per output channel, zeros in bytes
            lo, hi = (x.clamp(max=0) if i == 0 else x.clamp(min=0) for i, x in enumerate(w.aminmax(dim=1, keepdim=True)))
            s = ((hi - lo) / 255).to(torch.bfloat16)
            z = torch.clamp(torch.round(-128 - lo / s.float()), -128, 127)
            q8 = torch.clamp(torch.round(w / s.float()) + z, -128, 127)
            return {n: q8.to(torch.int8), f"{pre}.weight_scale": s, f"{pre}.weight_zero_point": z.to(torch.int8)}, (q8 - z) * s.float()
        if integer:
            s = (w.abs().amax(1, keepdim=True) / 127.5).to(torch.bfloat16)
            q8 = torch.clamp(torch.round(w / s.float()), -128, 127).to(torch.int8)
            return {n: q8, f"{pre}.weight_scale": s}, q8.float() * s.float()
        if not packed:  # float-quantized, per output channel
            s = (w.abs().amax(1, keepdim=True) / 448.0).to(torch.bfloat16)
            q8 = (w / s.float()).to(torch.float8_e4m3fn)
            return {n: q8, f"{pre}.weight_scale": s}, q8.float() * s.float()
        from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

        _, z, s, gi = round_to_nearest(w, 4, group, symmetric, gen, False)
        s = s.to(torch.bfloat16)
        z = torch.full_like(z, 8) if symmetric else z
        q = torch.clamp(torch.round(w.t().float() / s.float()[gi.long()]) + z[gi.long()], 0, 15).long()
        state = {
            f"{pre}.weight_packed": pack_to_int32((q - 8).t().to(torch.int8).contiguous(), 4),
            f"{pre}.weight_scale": s.t().contiguous(),
            f"{pre}.weight_shape": torch.tensor(w.shape, dtype=torch.int64),
        }
        if not symmetric:
            state[f"{pre}.weight_zero_point"] = pack_to_int32((z - 8).t().to(torch.int8).contiguous(), 4, packed_dim=0)
        return state, dequantise(q, z, s, gi)

    def unpack(state):
        out = {n: t for n, t in state.items() if ".weight_" not in n}
        for n in state:
            if n.endswith(".weight_scale"):
                pre, s = n[: -len("_scale")], state[n].float()
                if packed:
                    q, z = fields(state[pre + "_packed"], 4), 8
                    if not symmetric:
                        z = fields(state[pre + "_zero_point"].t(), 4).t().repeat_interleave(group, 1)
                    out[pre] = (q - z).float() * s.repeat_interleave(group, 1)
                else:
                    z = state[pre + "_zero_point"].float() if integer and not symmetric else 0
                    out[pre] = (out[pre].float() - z) * s
        return out

    weights = (
        dict(
            num_bits=4, type="int", symmetric=symmetric, strategy="group", group_size=group, dynamic=False, observer="minmax", actorder=None
        )
        if packed
        else dict(
            num_bits=8, type="int" if integer else "float", symmetric=symmetric, strategy="channel", dynamic=False, observer="minmax"
        )
    )
    inputs = None if packed else weights | dict(strategy="token", dynamic=True, symmetric=True)
    qc = dict(
        quant_method="compressed-tensors",
        format=fmt,
        quantization_status="compressed",
        global_compression_ratio=None,
        kv_cache_scheme=None,
        ignore=["lm_head"],
        config_groups=dict(group_0=dict(targets=["Linear"], weights=weights, input_activations=inputs, output_activations=None)),
    )
    make(
        root,
        v,
        name,
        llama(v, dtype="bf16"),
        quantise,
        dict(quantization_config=qc),
        f"compressed-tensors {fmt} symmetric={symmetric}; golden keeps activations in f32",
        unpack,
    )


# Quantiles of the normal distribution. Dettmers et al. 2023, arXiv:2305.14314; the numbers are bitsandbytes'.
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334]
NF4 += [-0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224]
NF4 += [0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
NF4 = torch.tensor(NF4)
# A sign, two bits of exponent and one of mantissa, of which the largest is 1; bitsandbytes' too.
SIZES = [0, 0.0625, 8, 12, 4, 6, 2, 3]
TABLES = dict(nf4=NF4, fp4=torch.tensor(SIZES + [-x for x in SIZES]) / 12)


def nearest(x, table):
    return (x.unsqueeze(-1) - table).abs().argmin(-1)


def four_bits(root, v, name, kind, nested, block=64, outer=256):
    # Any monotonous table will do for the scales of scales: readers take it from the file.
    table = (torch.linspace(-1, 1, 256) ** 3).float()

    def quantise(n, w, gen):
        if not is_linear(n):
            return None
        x = w.float().flatten().reshape(-1, block)
        absmax = x.abs().amax(1)
        state = dict(quant_type=kind, blocksize=block, dtype="float16", shape=list(w.shape))
        tensors = {}
        if nested:
            offset = absmax.mean()
            pad = torch.nn.functional.pad(absmax - offset, (0, -len(absmax) % outer)).reshape(-1, outer)
            top = pad.abs().amax(1)
            codes = nearest(pad / top[:, None].clamp(min=1e-8), table).flatten()[: len(absmax)]
            absmax = table[codes] * top.repeat_interleave(outer)[: len(codes)] + offset
            tensors = {f"{n}.nested_absmax": top, f"{n}.nested_quant_map": table}
            state |= dict(nested_blocksize=outer, nested_dtype="float32", nested_offset=float(offset))
            stored = codes.to(torch.uint8)
        else:
            stored = absmax
        q = nearest(x / absmax[:, None].clamp(min=1e-8), TABLES[kind]).flatten()
        text = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
        tensors |= {
            n: (q[0::2] << 4 | q[1::2]).to(torch.uint8)[:, None],
            f"{n}.absmax": stored,
            f"{n}.quant_map": TABLES[kind],
            f"{n}.quant_state.bitsandbytes__{kind}": text,
        }
        return tensors, (TABLES[kind][q].reshape(-1, block) * absmax[:, None]).reshape(w.shape)

    def unpack(state):
        out = {n: t for n, t in state.items() if ".weight." not in n}
        for n in state:
            if n.endswith(".weight.absmax"):
                pre = n[: -len(".absmax")]
                how = json.loads(bytes(state[f"{pre}.quant_state.bitsandbytes__{kind}"].tolist()))
                codes = state[pre].flatten().long()
                codes = torch.stack([codes >> 4, codes & 15], -1).flatten()
                scales = state[n]
                if scales.dtype == torch.uint8:
                    of = state[f"{pre}.nested_absmax"].repeat_interleave(how["nested_blocksize"])[: len(scales)]
                    scales = state[f"{pre}.nested_quant_map"][scales.long()] * of + how["nested_offset"]
                values = state[f"{pre}.quant_map"][codes] * scales.repeat_interleave(how["blocksize"])
                out[pre] = values.reshape(how["shape"])
        return out

    qc = dict(
        quant_method="bitsandbytes",
        _load_in_4bit=True,
        _load_in_8bit=False,
        load_in_4bit=True,
        load_in_8bit=False,
        bnb_4bit_quant_type=kind,
        bnb_4bit_use_double_quant=nested,
        bnb_4bit_compute_dtype="float16",
        bnb_4bit_quant_storage="uint8",
        llm_int8_skip_modules=None,
        llm_int8_threshold=6.0,
    )
    notes = f"bitsandbytes {kind.upper()}, blocks of {block}, scales of scales {nested}; golden multiplies in f32"
    make(root, v, name, llama(v), quantise, dict(quantization_config=qc), notes, unpack)


def sharded(root, v, name):
    make(
        root,
        v,
        name,
        llama(v),
        lambda n, w, gen: None,
        dict(torch_dtype="float16"),
        "model.safetensors.index.json with several shards",
        lambda s: s,
        shards=60000,
    )


CASES = {
    "gptq_v1_4bit_g32_sym": lambda r, v, n: gptq(r, v, n, 4, 32, True, False, "gptq", llama(v)),
    "gptq_v1_4bit_g128_asym": lambda r, v, n: gptq(r, v, n, 4, 128, False, False, "gptq", wide(v)),
    "gptq_v1_4bit_g32_asym_desc": lambda r, v, n: gptq(r, v, n, 4, 32, False, True, "gptq", llama(v)),
    "gptq_v1_4bit_g128_sym_desc_bias": lambda r, v, n: gptq(
        r, v, n, 4, 128, True, True, "gptq", wide(v, ffn=256, attention_bias=True), ", q/k/v/o biases"
    ),
    "gptq_v1_4bit_gm1_sym": lambda r, v, n: gptq(r, v, n, 4, -1, True, False, "gptq", llama(v)),
    "gptq_v1_8bit_g32_sym": lambda r, v, n: gptq(r, v, n, 8, 32, True, False, "gptq", llama(v)),
    "gptq_v1_8bit_g128_asym_desc": lambda r, v, n: gptq(r, v, n, 8, 128, False, True, "gptq", wide(v, ffn=256)),
    "gptq_v2_4bit_g32_sym": lambda r, v, n: gptq(r, v, n, 4, 32, True, False, "gptq_v2", llama(v)),
    "gptq_v2_4bit_g128_asym_desc": lambda r, v, n: gptq(r, v, n, 4, 128, False, True, "gptq_v2", wide(v, ffn=256)),
    "gptq_v2_8bit_g128_sym": lambda r, v, n: gptq(r, v, n, 8, 128, True, False, "gptq_v2", wide(v)),
    "gptq_v1_2bit_g32_asym": lambda r, v, n: gptq(r, v, n, 2, 32, False, False, "gptq", llama(v)),
    "gptq_v1_3bit_g32_sym": lambda r, v, n: gptq(r, v, n, 3, 32, True, False, "gptq", llama(v)),
    "gptq_v2_3bit_g32_asym_desc": lambda r, v, n: gptq(r, v, n, 3, 32, False, True, "gptq_v2", llama(v)),
    "gptq_v1_4bit_g32_sym_desc_alike": lambda r, v, n: gptq(
        r, v, n, 4, 32, True, True, "gptq", llama(v), ", matrices of one input ordered alike", alike=True
    ),
    "gptq_v2_4bit_g16_asym": lambda r, v, n: gptq(r, v, n, 4, 16, False, False, "gptq_v2", llama(v)),
    "gptq_v1_4bit_experts": lambda r, v, n: gptq(r, v, n, 4, 32, True, False, "gptq", experts(v), ", experts"),
    "gptq_v1_4bit_experts_desc": lambda r, v, n: gptq(
        r, v, n, 4, 32, False, True, "gptq", experts(v), ", experts, matrices of one input ordered alike", alike=True
    ),
    "awq_gemm_experts": lambda r, v, n: awq(r, v, n, 32, experts(v)),
    "fp8_block_latent": lambda r, v, n: fp8(r, v, n, 32, deepseek_v3(v)),
    "gptq_v1_4bit_latent": lambda r, v, n: gptq(r, v, n, 4, 32, True, False, "gptq", latent(v), ", latent attention"),
    "gptq_v1_4bit_latent_desc": lambda r, v, n: gptq(
        r, v, n, 4, 32, False, True, "gptq", latent(v, first_k_dense_replace=2), ", latent attention"
    ),
    "awq_gemm_latent": lambda r, v, n: awq(r, v, n, 32, latent(v)),
    "gptq_v1_4bit_g16_sym_desc": lambda r, v, n: gptq(r, v, n, 4, 16, True, True, "gptq", llama(v)),
    "gptq_v1_8bit_g16_asym": lambda r, v, n: gptq(r, v, n, 8, 16, False, False, "gptq", llama(v)),
    "gptq_v1_dynamic": lambda r, v, n: gptq(
        r, v, n, 4, 32, True, False, "gptq", llama(v), ", dynamic", dynamic={"down_proj": 8, "v_proj": 2, "layers.1.self_attn.q": 0}
    ),
    "gptq_v1_experts_dynamic": lambda r, v, n: gptq(
        r, v, n, 4, 32, True, False, "gptq", experts(v), ", dynamic, experts", dynamic={"experts.1.": 8, "experts.2.down_proj": 0}
    ),
    "ct_int8_channel": lambda r, v, n: compressed(r, v, n, "int-quantized"),
    "ct_int8_channel_asym": lambda r, v, n: compressed(r, v, n, "int-quantized", symmetric=False),
    "nf4": lambda r, v, n: four_bits(r, v, n, "nf4", False),
    "nf4_nested": lambda r, v, n: four_bits(r, v, n, "nf4", True),
    "fp4": lambda r, v, n: four_bits(r, v, n, "fp4", False),
    "awq_gemm_g32": lambda r, v, n: awq(r, v, n, 32, llama(v)),
    "awq_gemm_g128": lambda r, v, n: awq(r, v, n, 128, wide(v)),
    "fp8_block128": fp8,
    "gpt_oss_mxfp4": mxfp4,
    "ct_w4a16_g32_sym": lambda r, v, n: compressed(r, v, n, "pack-quantized"),
    "ct_w4a16_g32_asym": lambda r, v, n: compressed(r, v, n, "pack-quantized", symmetric=False),
    "ct_fp8_channel": lambda r, v, n: compressed(r, v, n, "float-quantized"),
    "sharded_llama": sharded,
}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--variant", default="open", choices=["open", "held"])
    ap.add_argument("--out")
    ap.add_argument("--only")
    a = ap.parse_args()
    v = core.Variant(a.variant)
    root = os.path.join(a.out or os.path.join(ROOT, "..", "..", "goldens"), "quant")
    failed = []
    for name in a.only.split(",") if a.only else CASES:
        try:
            CASES[name](root, v, name)
        except Exception as e:
            failed.append(name)
            print(f"FAIL {name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
            if a.only:
                raise
    print("failed:", failed)


if __name__ == "__main__":
    main()
