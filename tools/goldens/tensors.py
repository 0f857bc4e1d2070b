"""Torch tensors as materialise.py has them."""
import torch


def raw(t):
    """torch tensor -> the (type, shape, bytes) of materialise.py"""
    t = t.detach().contiguous()
    kind = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.int32: "I32", torch.int64: "I64",
            torch.uint8: "U8", torch.int8: "I8", torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3"}[t.dtype]
    opaque = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8}.get(t.dtype)      # numpy has no such types
    data = t.view(opaque).numpy() if opaque else t.numpy()
    return kind, list(t.shape), data.tobytes()
