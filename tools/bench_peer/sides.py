"""One measurement of either side in a process of its own; each side prints rinfer bench's JSON."""
import importlib.util
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ["llama", "llama-avx2", "candle"]


class Failed(Exception):
    """A side that can't be run, or that did not end well."""


def default_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "rinfer", "peers")


def python_of(peer, folder):
    """The interpreter that has this llama.cpp: the one that setup made, or for the native build this one."""
    python = os.path.join(folder, peer, "bin", "python")
    if os.path.exists(python):
        return python
    if peer == "llama" and importlib.util.find_spec("llama_cpp"):
        return sys.executable
    raise Failed(f"{peer}: no {python}; tools/bench_peer/setup {peer} makes it")


def command(peer, folder):
    """What runs this peer, before the arguments that all sides have in common."""
    if peer != "candle":
        return [python_of(peer, folder), os.path.join(HERE, "llama.py")]
    program = os.path.join(folder, "candle", "release", "bench-candle")
    if not os.path.exists(program):
        raise Failed(f"candle: no {program}; tools/bench_peer/setup candle makes it")
    return [program]


def measure(command, cell, prefill, decode, env):
    """What the side prints, and {(test, tokens): tokens/s}."""
    arguments = [cell.model, "--threads", cell.threads, "--prefill", prefill, "--decode", decode,
                 "--depth", cell.depth, "--parallel", cell.parallel, "--repeat", 1, "--json"]
    line = [*command, *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **env})
    if done.returncode:
        raise Failed(" ".join(line) + "\n" + done.stderr[-2000:])
    said = json.loads(done.stdout)
    return said, {(r["test"], r["tokens"]): r["tok_per_s"] for r in said["results"]}


def ours(rinfer, tier, served, cell, prefill, decode):
    env = {"RINFER_TIER": tier} if tier else {}
    command = [sys.executable, os.path.join(HERE, "served.py"), rinfer] if served else [rinfer, "bench"]
    return measure(command, cell, prefill, decode, env)


def theirs(folder, cell, prefill, decode):
    env = {"RAYON_NUM_THREADS": str(cell.threads)} if cell.peer == "candle" else {}
    return measure(command(cell.peer, folder), cell, prefill, decode, env)
