"""llama.cpp's side: prefill and decode through libllama's C API, as llama-bench and llama-batched-bench do them.

All parameters are the library's own defaults but these: the cache of a sliding window is as long as the window (what
llama.cpp's programs choose), batches are of 2048 tokens in parts of 512, logits are wanted of each sequence's last token.
"""
import argparse
import ctypes
import json
import time

import llama_cpp as L

BATCH = 2048
WARM_UP = 16


class Context:
    def __init__(self, args):
        self.quiet = L.llama_log_callback(lambda *_: None)  # the library keeps the pointer
        L.llama_log_set(self.quiet, None)
        L.llama_backend_init()
        model = L.llama_model_load_from_file(args.model.encode(), L.llama_model_default_params())
        assert model, "the model does not load"
        self.sequences = args.parallel
        params = L.llama_context_default_params()
        positions = args.depth + max(args.prefill, args.decode, WARM_UP + 1)
        params.n_ctx = self.sequences * -(-positions // 256) * 256
        params.n_seq_max = self.sequences
        params.n_batch, params.n_ubatch = BATCH, 512
        params.n_threads = params.n_threads_batch = args.threads
        params.swa_full = False
        self.context = L.llama_init_from_model(model, params)
        assert self.context, "no context"
        self.vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
        self.state = 1

    def token(self):
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return self.state % self.vocab

    def batch(self, entries):
        """Of (sequence, position, whether its logits are wanted)."""
        n = len(entries)
        ids = [(L.llama_seq_id * 1)(sequence) for sequence, _, _ in entries]
        pointer = ctypes.POINTER(L.llama_seq_id)
        batch = L.llama_batch(
            n_tokens=n,
            token=(L.llama_token * n)(*(self.token() for _ in entries)),
            pos=(L.llama_pos * n)(*(position for _, position, _ in entries)),
            n_seq_id=(ctypes.c_int32 * n)(*[1] * n),
            seq_id=(pointer * n)(*(ctypes.cast(i, pointer) for i in ids)),
            logits=(ctypes.c_int8 * n)(*(wanted for _, _, wanted in entries)),
        )
        batch.ids = ids
        return batch

    def together(self, past, count):
        """Batches that give `count` tokens to every sequence at once."""
        entries = [(s, past + i, i + 1 == count) for s in range(self.sequences) for i in range(count)]
        return [self.batch(entries[i:i + BATCH]) for i in range(0, len(entries), BATCH)]

    def run(self, batches):
        """Seconds."""
        start = time.perf_counter()
        for batch in batches:
            assert L.llama_decode(self.context, batch) == 0, "llama_decode failed"
        L.llama_synchronize(self.context)
        return time.perf_counter() - start

    def measure(self, depth, batches):
        """Seconds of these batches after `depth` tokens of each sequence."""
        L.llama_memory_clear(L.llama_get_memory(self.context), True)
        self.run(self.together(0, depth))
        return self.run(batches)

    def prefill(self, depth, count):
        return self.measure(depth, self.together(depth, count))

    def decode(self, depth, count):
        return self.measure(depth, [b for i in range(count) for b in self.together(depth + i, 1)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name in ("threads", "prefill", "decode", "depth", "parallel", "repeat"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--json", action="store_true", required=True)
    args = parser.parse_args()
    context = Context(args)
    context.prefill(0, WARM_UP)
    context.decode(0, 1)
    results = []
    for test, tokens, run in [("prefill", args.prefill, context.prefill), ("decode", args.decode, context.decode)]:
        if tokens:
            seconds = sorted(run(args.depth, tokens) for _ in range(args.repeat))[args.repeat // 2]
            results.append({"test": test, "tokens": tokens, "tok_per_s": tokens * args.parallel / seconds})
    system = L.llama_print_system_info().decode().strip()
    print(json.dumps({"version": "llama-cpp-python " + L.__version__, "system": system, "results": results}))


if __name__ == "__main__":
    main()
