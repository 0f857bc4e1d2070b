#!/usr/bin/env python3
"""Golden generator for the text families.

  make.py [--variant open|held] [--only name,name] [--out DIR] [--hidden DIR] [--skip-existing]
  make.py --verify [...]     check existing cases instead: materialise.py, then transformers, then compare
  make.py --list
"""
import argparse
import os
import sys
import time
import traceback

import core
import families  # noqa: F401  (registers the families)

GOLDENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "goldens")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--variant", default="open", choices=["open", "held"])
    ap.add_argument("--out", help="default of the open variant: the repository's goldens")
    ap.add_argument("--hidden", help="a folder for per-layer debugging data, one file per family")
    ap.add_argument("--only", help="comma-separated families")
    ap.add_argument("--skip-existing", action="store_true")
    ap.add_argument("--verify", action="store_true")
    ap.add_argument("--list", action="store_true")
    a = ap.parse_args()
    if a.list:
        print("\n".join(core.FAMILIES))
        return
    v = core.Variant(a.variant)
    if v.held and not a.out:
        ap.error("--variant held needs --out: held cases do not belong among the repository's goldens")
    out = a.out or GOLDENS
    failed, names = [], a.only.split(",") if a.only else list(core.FAMILIES)
    for n in names:
        if a.skip_existing and not a.verify and os.path.exists(f"{out}/{n}/meta.json"):
            continue
        start = time.time()
        log = lambda s: print(s, f"{time.time() - start:.1f}s", flush=True)  # noqa: B023, E731
        try:
            if a.verify:
                core.verify_family(n, v, out, log)
            else:
                core.make_family(n, v, out, a.hidden, log)
        except Exception as e:
            failed.append(n)
            print(f"FAIL {n}: {type(e).__name__}: {str(e)[:400]}", flush=True)
            if a.only:
                traceback.print_exc()
    print(f"{len(names)} families, failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
