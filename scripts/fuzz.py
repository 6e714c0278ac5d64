"""Fuzz all commands in this process, and save what fails: make fuzz SECONDS=600.

Every case has a number, its seed; --first and --cases choose some of them. A failure is saved once
per defect, as a folder with the damaged file, the command and the traceback. If the process dies,
the folder of the case that killed it stays in `current`.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import shutil
import sys
import time
import warnings
from hashlib import blake2b
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz.commands import SUBJECTS, Case, run_case

MEMORY_BYTES = 8 << 30
"""Address space of the process: a case that needs more is a failure, not a machine that swaps."""


def main() -> int:
    """Run cases until the time or their number is up; 1 when any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="stop after this time")
    parser.add_argument("--cases", type=int, default=None, help="stop after so many cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", nargs="*", choices=sorted(SUBJECTS), help="kinds of files")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    chosen = parser.parse_args()
    os.environ |= {"SOLSCOPE_NO_CACHE": "1", "COLUMNS": "100"}
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("ignore")
    subjects = tuple(chosen.only or SUBJECTS)
    current = chosen.out / "current"
    codes: collections.Counter[str] = collections.Counter()
    found: collections.Counter[str] = collections.Counter()
    begin, slowest, done = time.monotonic(), (0.0, -1), 0
    while time.monotonic() - begin < chosen.seconds and done != chosen.cases:
        seed = chosen.first + done
        shutil.rmtree(current, ignore_errors=True)
        current.mkdir(parents=True)
        started = time.monotonic()
        case = run_case(seed, current, subjects)
        slowest = max(slowest, (time.monotonic() - started, seed))
        codes[f"exit {case.code}"] += 1
        done += 1
        if case.problem is not None:
            found[case.problem] += 1
            if found[case.problem] == 1:
                print(f"case {seed}: {case.problem}: {' '.join(case.arguments)}", flush=True)
                _save(case, seed, current, chosen.out)
        elif done % 1000 == 0:
            print(f"{done} cases, {len(found)} defects", flush=True)
    shutil.rmtree(current, ignore_errors=True)
    took = time.monotonic() - begin
    print(f"{done} cases in {took:.0f} s: {dict(sorted(codes.items()))}")
    print(f"slowest: case {slowest[1]}, {slowest[0]:.1f} s")
    for problem, count in found.most_common():
        print(f"{count:6d}  {problem}")
    return 1 if found else 0


def _save(case: Case, seed: int, current: Path, out: Path) -> None:
    name = blake2b(str(case.problem).encode(), digest_size=6).hexdigest()
    target = out / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(current, target)
    about = {"seed": seed, "problem": case.problem, "arguments": case.arguments}
    (target / "case.json").write_text(json.dumps(about, indent=1))
    (target / "details.txt").write_text(case.details, errors="replace")


if __name__ == "__main__":
    sys.exit(main())
