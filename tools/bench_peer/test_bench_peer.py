"""The pure parts: python3 -m unittest discover tools/bench_peer"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import pairs  # noqa: E402


def script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Pairs(unittest.TestCase):
    def test_each_cell_alternates(self):
        turns = list(pairs.schedule(["a"], [1, 2], [0, 2048], [1], ["llama", "candle"], 2))
        self.assertEqual(len(turns), 16)
        for cell in {cell for _, cell, _ in turns}:
            self.assertEqual({first for _, c, first in turns if c == cell}, {True, False})

    def test_the_ratio_is_of_pairs(self):
        cell = pairs.Cell("x/m-q4_0.gguf", 2, 0, 4, "llama")
        row, = pairs.rows({(cell, "decode", 128): [(30, 10), (20, 20), (800, 400)]})
        self.assertEqual((row["ratio"], row["low"], row["high"]), (2, 1, 3))
        self.assertEqual((row["rinfer_tok_per_s"], row["peer_tok_per_s"]), (30, 20))
        markdown = pairs.table([row], markdown=True).splitlines()
        self.assertEqual(len(markdown), 3)
        self.assertEqual(markdown[2], "| m-q4_0 | 2 | decode 128 | 0 | 4 | 30.0 | llama | 20.0 | 2.00 | 1.00 | 3.00 |")
        self.assertEqual({line.count("|") for line in markdown}, {12})
        self.assertEqual(len(pairs.table([row], markdown=False).splitlines()), 2)


class Quantise(unittest.TestCase):
    def test_names(self):
        name = script("quantise").name_for
        self.assertEqual(name("d/qwen2.5-coder-0.5b-q4_k_m.gguf", "F16"), "qwen2.5-coder-0.5b-f16.gguf")
        self.assertEqual(name("M.Q4_1.gguf", "Q8_0"), "M-q8_0.gguf")


if __name__ == "__main__":
    unittest.main()
