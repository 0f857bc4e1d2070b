"""llama.cpp as the judge of written GGUF files, through the library in the Python package llama-cpp-python.

Jobs come as lines of JSON and are answered by lines of JSON, each by a process of its own: what aborts is an answer too.

    {"file": PATH, "ids": [...], "all": true}     logits of every position, hex of f32, or null if it does not load
    {"file": PATH, "ids": [...], "greedy": N}     the N ids that follow
    {"file": PATH, "text": TEXT}                  the ids of a text, control tokens as text, without what is added
"""
import ctypes
import json
import os
import sys

import llama_cpp as L

quiet = L.llama_log_callback(lambda *_: None)  # the library keeps the pointer


def load(path, vocab_only=False):
    L.llama_log_set(quiet, None)
    L.llama_backend_init()
    params = L.llama_model_default_params()
    params.vocab_only = vocab_only
    return L.llama_model_load_from_file(path.encode(), params)


def context(model, count):
    params = L.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = -(-count // 256) * 256, 512, 512
    params.n_threads = params.n_threads_batch = 2
    params.type_k = params.type_v = 0  # f32
    params.flash_attn_type = 0
    params.swa_full = True
    return L.llama_init_from_model(model, params)


def batch(ids, past, every):
    n = len(ids)
    pointer = ctypes.POINTER(L.llama_seq_id)
    zeros = [(L.llama_seq_id * 1)(0) for _ in ids]
    made = L.llama_batch(
        n_tokens=n,
        token=(L.llama_token * n)(*ids),
        pos=(L.llama_pos * n)(*range(past, past + n)),
        n_seq_id=(ctypes.c_int32 * n)(*[1] * n),
        seq_id=(pointer * n)(*(ctypes.cast(z, pointer) for z in zeros)),
        logits=(ctypes.c_int8 * n)(*(every or i + 1 == n for i in range(n))),
    )
    made.ids = zeros
    return made


def answer(job):
    if "text" in job:
        model = load(job["file"], vocab_only=True)
        if not model:
            return None
        vocab, text = L.llama_model_get_vocab(model), job["text"].encode()
        room = (L.llama_token * (len(text) + 8))()
        n = L.llama_tokenize(vocab, text, len(text), room, len(room), False, False)
        return list(room[:n])
    model = load(job["file"])
    if not model:
        return None
    ids, vocab = job["ids"], L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    count = job.get("greedy", 0)
    lm = context(model, len(ids) + count)
    if not lm or L.llama_decode(lm, batch(ids, 0, "all" in job)) != 0:
        return None
    if "all" in job:
        rows = L.llama_get_logits(lm)
        return ctypes.string_at(rows, 4 * vocab * len(ids)).hex()
    out = []
    for i in range(count):
        row = L.llama_get_logits_ith(lm, -1)
        out.append(max(range(vocab), key=lambda j: row[j]))
        if L.llama_decode(lm, batch(out[-1:], len(ids) + i, False)) != 0:
            return None
    return out


def apart(job):
    """The answer of a process of its own; null if it ends without one."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(write, "w") as out:
            json.dump(answer(job), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as text:
        found = text.read()
    os.waitpid(child, 0)
    return json.loads(found) if found else None


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(apart(json.loads(line))), flush=True)
