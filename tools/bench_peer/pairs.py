"""What is run, in which order, and the table of it: nothing here starts a process."""
import itertools
import os
import statistics
from typing import NamedTuple


class Cell(NamedTuple):
    """What one process of either side measures."""

    model: str
    threads: int
    depth: int
    parallel: int
    peer: str


def schedule(models, threads, depths, parallels, peers, rounds):
    """Yields round, cell and whether ours runs first, which alternates from round to round in each cell."""
    cells = [Cell(*c) for c in itertools.product(models, threads, depths, parallels, peers)]
    for turn in range(rounds):
        for i, cell in enumerate(cells):
            yield turn, cell, (turn + i) % 2 == 1


def rows(measured):
    """A dictionary for each test of each cell, from {(cell, test, tokens): [(ours, theirs), ...]} in tokens/s."""
    out = []
    for (cell, test, tokens), pairs in measured.items():
        ratios = [ours / theirs for ours, theirs in pairs]
        out.append({
            **cell._asdict(), "test": test, "tokens": tokens,
            "rinfer_tok_per_s": statistics.median(ours for ours, _ in pairs),
            "peer_tok_per_s": statistics.median(theirs for _, theirs in pairs),
            "ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "pairs": pairs,
        })
    return out


HEAD = ["model", "threads", "test", "depth", "sequences", "rinfer", "peer", "peer's", "ratio", "low", "high"]
TEXT = {"model", "test", "peer"}


def rate(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}"


def fields(row):
    name = os.path.basename(row["model"]).removesuffix(".gguf")
    ratios = [f"{row[k]:.2f}" for k in ("ratio", "low", "high")]
    return [name, str(row["threads"]), f"{row['test']} {row['tokens']}", str(row["depth"]), str(row["parallel"]),
            rate(row["rinfer_tok_per_s"]), row["peer"], rate(row["peer_tok_per_s"]), *ratios]


def table(rows, markdown):
    """The table, rates in tokens/s of all sequences together; in columns for a terminal, or as Markdown."""
    lines = [HEAD, *map(fields, rows)]
    if markdown:
        rule = ["---" if name in TEXT else "---:" for name in HEAD]
        return "".join("| " + " | ".join(line) + " |\n" for line in [HEAD, rule, *lines[1:]])
    widths = [max(map(len, column)) for column in zip(*lines)]
    align = [str.ljust if name in TEXT else str.rjust for name in HEAD]
    return "".join("  ".join(a(f, w) for a, f, w in zip(align, line, widths)).rstrip() + "\n" for line in lines)
