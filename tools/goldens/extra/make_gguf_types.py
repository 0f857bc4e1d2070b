#!/usr/bin/env python3
"""gguf_types/<type>.safetensors: raw block bytes and their f32 dequantisation, for every ggml type.

  make_gguf_types.py --llamacpp DIR [--out DIR] [--seed N]      DIR holds gguf-py and lib/libggml-base.so

tensors: raw_random U8 [n_blocks, block_bytes] (random but valid bytes), f32_random F32 [n_blocks, block_elems];
         source F32 [2, 512], raw_real U8 (ggml's own quantiser on source), f32_real F32.
Dequantisation is gguf-py's (llama.cpp's vendored copy); libggml's to_float must agree bit for bit (or within 1 ulp) where loaded.
"""
import argparse
import ctypes
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("--llamacpp", required=True)
ap.add_argument("--out", default=os.path.join(HERE, "..", "..", "..", "goldens", "gguf_types"))
ap.add_argument("--seed", type=int, default=20)
ARGS = ap.parse_args()
LIB = os.path.abspath(os.path.join(ARGS.llamacpp, "lib", "libggml-base.so"))
sys.path.insert(0, os.path.join(ARGS.llamacpp, "gguf-py"))
import gguf
import numpy as np
from gguf import GGMLQuantizationType as T, quants
from gguf.constants import GGML_QUANT_SIZES
from safetensors.numpy import save_file




class Traits(ctypes.Structure):
    _fields_ = [("type_name", ctypes.c_char_p), ("blck_size", ctypes.c_int64), ("blck_size_interleave", ctypes.c_int64), ("type_size", ctypes.c_size_t),
                ("is_quantized", ctypes.c_bool), ("to_float", ctypes.c_void_p), ("from_float_ref", ctypes.c_void_p)]


def load_lib():
    lib = ctypes.CDLL(LIB)
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    lib.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    lib.ggml_get_type_traits.argtypes = [ctypes.c_int]
    lib.ggml_quantize_init.argtypes = [ctypes.c_int]
    # f16 tables used by some to_float implementations are initialised by ggml_init
    class P(ctypes.Structure):
        _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]
    lib.ggml_init.restype = ctypes.c_void_p
    lib.ggml_init.argtypes = [P]
    lib.ggml_init(P(1 << 20, None, False))
    return lib


def lib_dequant(lib, t, raw, n):
    tr = lib.ggml_get_type_traits(int(t)).contents
    out = np.zeros(n, np.float32)
    raw = np.ascontiguousarray(raw)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(tr.to_float)(raw.ctypes.data, out.ctypes.data, n)
    return out


def lib_quant(lib, t, x):
    tr = lib.ggml_get_type_traits(int(t)).contents
    rows, cols = x.shape
    out = np.zeros(rows * cols // tr.blck_size * tr.type_size, np.uint8)
    im = np.ones(cols, np.float32)
    lib.ggml_quantize_init(int(t))
    n = lib.ggml_quantize_chunk(int(t), x.ctypes.data, out.ctypes.data, 0, rows, cols, im.ctypes.data)
    assert n == out.size
    return out.reshape(-1, tr.type_size)


# byte offsets of the f16 fields inside one block
F16_AT = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.TQ1_0: [52], T.TQ2_0: [64],
          T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0], T.IQ4_NL: [0], T.IQ4_XS: [0], T.Q8_1: [0, 2]}


def random_blocks(t, n, rng):
    _, size = GGML_QUANT_SIZES[t]
    b = rng.integers(0, 256, size=(n, size), dtype=np.uint8)
    def f16(k):
        return (rng.standard_normal(k) * 0.05).astype(np.float16)
    for off in F16_AT.get(t, []):
        b[:, off:off + 2] = f16(n).view(np.uint8).reshape(n, 2)
    if t == T.IQ1_M:       # the scale's f16 bits are spread over the top nibbles of the four scale words
        bits = f16(n).view(np.uint16)
        sc = b[:, 48:56].copy().view(np.uint16)
        for i, sh in enumerate((0, 4, 8, 12)):
            sc[:, i] = (sc[:, i] & 0x0FFF) | (((bits >> sh) & 0xF) << 12)
        b[:, 48:56] = sc.view(np.uint8)
    if t == T.MXFP4:
        b[:, 0] = rng.integers(118, 132, size=n)
        b[0, 0], b[1, 0] = 0, 1                      # denormal scales
    if t == T.NVFP4:
        nsub = 4
        b[:, :nsub] = rng.integers(0x28, 0x58, size=(n, nsub))
    if t in (T.Q1_0, T.Q2_0):
        b[:, 0:2] = f16(n).view(np.uint8).reshape(n, 2)
    if t == T.Q8_K:
        b[:, 0:4] = (rng.standard_normal(n) * 0.01).astype(np.float32).view(np.uint8).reshape(n, 4)
    return b


def main(out, seed=20):
    os.makedirs(out, exist_ok=True)
    lib = load_lib()
    rows = []
    for t in T:
        if t in (T.F32, T.I8, T.I16, T.I32, T.I64, T.F64):
            continue
        rng = np.random.default_rng(seed * 1000 + int(t))
        bs, ts = GGML_QUANT_SIZES[t]
        tensors, note = {}, []
        if t in (T.F16, T.BF16):
            raw = rng.standard_normal(256).astype(np.float16).view(np.uint8).reshape(-1, 2) if t == T.F16 else (rng.standard_normal(256).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(-1, 2)
        else:
            raw = random_blocks(t, max(4, 512 // bs if bs < 256 else 4), rng)
        n = raw.shape[0] * bs
        py = None
        try:
            py = quants.dequantize(raw.reshape(-1), t).reshape(-1).astype(np.float32) if t not in (T.F16,) else raw.view(np.float16).reshape(-1).astype(np.float32)
        except NotImplementedError:
            note.append("gguf-py cannot dequantise it")
        c = None
        try:
            if lib.ggml_get_type_traits(int(t)).contents.to_float:
                c = lib_dequant(lib, t, raw, n)
        except Exception as e:
            note.append(f"lib {e}")
        if py is None and c is None:
            rows.append((t.name, "skipped: " + "; ".join(note))); continue
        if py is not None and c is not None:
            d = np.abs(py - c).max()
            rel = d / max(np.abs(c).max(), 1e-30)
            note.append(f"gguf-py vs libggml max diff {d:.3g} (rel {rel:.2g})")
            assert rel < 1e-6, (t.name, d)
        ref = py if py is not None else c
        assert np.isfinite(ref).all(), t.name
        tensors["raw_random"], tensors["f32_random"] = raw, ref.reshape(-1, bs)
        if bs > 1 or t in (T.F16, T.BF16):
            try:
                x = (rng.standard_normal((2, 512)) * 0.1).astype(np.float32)
                x[:, ::37] *= 6
                q = lib_quant(lib, t, x)
                f = quants.dequantize(q.reshape(-1), t).reshape(2, 512).astype(np.float32) if py is not None and t != T.F16 else lib_dequant(lib, t, q, x.size).reshape(2, 512)
                tensors.update(source=x, raw_real=q, f32_real=f)
                note.append(f"real rms err {np.sqrt(((x - f) ** 2).mean()):.4f}")
            except Exception as e:
                note.append(f"no real blocks: {type(e).__name__} {e}")
        save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, f"{out}/{t.name}.safetensors")
        rows.append((t.name, f"ggml type {int(t)}, {bs} elems / {ts} bytes; " + "; ".join(note)))
    for f in os.listdir(out):
        os.chmod(os.path.join(out, f), 0o644)
    with open(f"{out}/README.txt", "w") as f:
        f.write(__doc__ + "\n" + "\n".join(f"{a}: {b}" for a, b in rows) + "\n")
    print("\n".join(f"{a}: {b}" for a, b in rows))


if __name__ == "__main__":
    main(ARGS.out, ARGS.seed)
