"""rinfer serve as a side: as many clients as sequences, who ask at once and read streams of a number of tokens.

The time is that from the first request to the last stream's end, so prompts of some 30 tokens, HTTP and JSON are in it.
"""
import argparse
import http.client
import json
import statistics
import subprocess
import threading
import time

WARM_UP = 4


class Server:
    def __init__(self, args):
        # All answers share the context's pages.
        context = args.parallel * (128 + args.decode)
        line = [args.rinfer, "serve", args.model, "--addr", "127.0.0.1:0", "--threads", str(args.threads)]
        line += ["--parallel", str(args.parallel), "--context", str(context)]
        self.process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        assert "http://" in said, said
        host, port = said.split("http://")[1].split("/")[0].split()[0].rsplit(":", 1)
        self.at = host, int(port)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        with self.asked("GET", "/v1/models") as models:
            self.model = json.load(models)["data"][0]["id"]
        # What ends answers, by the names of common models: none ends before its length.
        self.never = {}
        for text in ["<|im_end|>", "<|endoftext|>", "<end_of_turn>", "<eos>"]:
            with self.asked("POST", "/tokenize", {"content": text, "add_special": False}) as told:
                ids = json.load(told)["tokens"]
            if len(ids) == 1:
                self.never[str(ids[0])] = -100

    def asked(self, method, path, body=None):
        connection = http.client.HTTPConnection(*self.at)
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse()

    def answer(self, number, tokens, begun, ended):
        """Notes when a stream of so many tokens began and ended."""
        # A word of its own for each client: nothing of the prompt's end is shared.
        body = {"model": self.model, "prompt": f"Client {number}: tell me all that you know of the sea and of ships.",
                "max_tokens": tokens, "temperature": 0, "stream": True, "logit_bias": self.never}
        response = self.asked("POST", "/v1/completions", body)
        assert response.status == 200, response.read()
        for line in response:
            if line.startswith(b"data: {"):
                begun.setdefault(number, time.perf_counter())
                last = json.loads(line[6:])
        assert last["choices"][0]["finish_reason"] == "length", last
        ended.append(time.perf_counter())

    def run(self, clients, tokens, first=0):
        """Seconds of all, and each client's until its first token."""
        begun, ended, start = {}, [], time.perf_counter()
        numbers = range(first, first + clients)
        threads = [threading.Thread(target=self.answer, args=(n, tokens, begun, ended)) for n in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ended) == clients, "a client failed"
        return max(ended) - start, [at - start for at in begun.values()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rinfer")
    parser.add_argument("model")
    for name in ("threads", "prefill", "decode", "depth", "parallel", "repeat"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--json", action="store_true", required=True)
    args = parser.parse_args()
    assert args.decode > 0 and args.depth == 0 and args.prefill == 0, "a server is measured by its answers"
    server = Server(args)
    try:
        server.run(args.parallel, WARM_UP, first=100)
        seconds, first = server.run(args.parallel, args.decode)
    finally:
        server.process.terminate()
        server.process.wait()
    rate = args.decode * args.parallel / seconds
    results = [{"test": "decode", "tokens": args.decode, "tok_per_s": rate, "first_token_s": statistics.median(first)}]
    print(json.dumps({"results": results}))


if __name__ == "__main__":
    main()
