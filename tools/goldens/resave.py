#!/usr/bin/env python3
"""Writes `config.resaved.json` beside each golden's config.json: the same config as transformers saves it.

    python3 resave.py [CASE ...]

Classes that transformers has not are left out.
"""
import pathlib
import shutil
import sys
import tempfile

import transformers

goldens = pathlib.Path(__file__).resolve().parents[2] / "goldens"
cases = [goldens / case for case in sys.argv[1:]] or sorted(path.parent for path in goldens.glob("*/config.json"))
for case in cases:
    try:
        config = transformers.AutoConfig.from_pretrained(case)
    except ValueError as unknown:
        print(f"{case.name}: {str(unknown).splitlines()[0]}", file=sys.stderr)
        continue
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        shutil.copy(pathlib.Path(folder) / "config.json", case / "config.resaved.json")
