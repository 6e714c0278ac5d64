"""Run every evil sample through the evaluator and print what caught it; honest ones must pass.

    python benchmarks/guards.py [--device cuda] [--scale 1.0] [--only NAME,...] [--part 1/2]
                                [--seconds 300] [--jobs 6]

Samples that a check can judge run beside each other, those that take timing one at a time after
them. Each line is printed when its sample is done; what `--seconds` left no time for is listed.
Exits with 1 when a sample got through, was caught as something else than it is, or was not run.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from solscope.bench.pool.process import Stopped  # noqa: E402
from solscope.bench.pool.spawner import Spawner  # noqa: E402
from solscope.bench.run.agenda import Options  # noqa: E402
from solscope.bench.run.evaluate import open_spawner  # noqa: E402
from tests.evil import called, chosen, expected, limits, run_results  # noqa: E402

BESIDE = {
    name: ["honest"]
    for name in ("finds_results_of_others", "spoils_for_others", "writes_to_others", "kills_others")
}
"""Samples that need another one to run with them, which must pass."""


class Found(NamedTuple):
    """What became of one sample."""

    name: str
    as_expected: bool
    line: str


class Guards:
    """The samples of one run, and the time that it has."""

    def __init__(self, device: str, scale: float, seconds: float) -> None:
        self.device = device
        self.scale = scale
        self.end = time.monotonic() + seconds

    def run(self, names: list[str], jobs: int) -> Iterator[Found]:
        """What became of each sample, as soon as it is known; nothing of those not reached."""
        with open_spawner(self._options()) as spawner:
            timer = threading.Timer(max(0.0, self.end - time.monotonic()), spawner.stop)
            timer.daemon = True
            timer.start()
            for stage, threads in (("check", jobs), ("time", 1)):
                wanted = [name for name in chosen(stage, self.device) if name in names]
                with ThreadPoolExecutor(max_workers=threads) as pool:
                    doing = [pool.submit(self._one, name, stage, spawner) for name in wanted]
                    for done in as_completed(doing):
                        found = done.result()
                        if found is not None:
                            yield found
            timer.cancel()

    def _options(self) -> Options:
        return Options([], [], device=self.device, limits=limits(self.device))

    def _one(self, name: str, stage: str, spawner: Spawner) -> Found | None:
        if time.monotonic() >= self.end:
            return None
        start = time.monotonic()
        wanted = expected()[name]
        try:
            found: dict[str, list[Any]] = run_results(
                [*BESIDE.get(name, []), name],
                self.device,
                check_only=stage == "check",
                scale=self.scale,
                # Limits of time are the spawner's: a sample with its own has its own spawner.
                spawner=None if "patience_s" in wanted else spawner,
            )
        except Stopped:
            return None
        except Exception as error:  # noqa: BLE001 - one sample must not end the others
            what = f"{type(error).__name__}: {error}"
            return self._found(name, "MISSED", "error", what, time.monotonic() - start)
        if spawner.stopped:
            return None
        results = found.pop(name)
        for other, theirs in found.items():
            if not theirs or any(result.status != "passed" for result in theirs):
                why = next((result.reason for result in theirs if result.reason), "nothing was run")
                took = time.monotonic() - start
                return self._found(name, "MISSED", f"{other} failed", why, took)
        seen = sorted({called(result, wanted) for result in results})
        caught = bool(seen) and set(seen) <= set(wanted["status"])
        why = next((result.reason for result in results if result.reason), None) or ""
        mark = "MISSED" if not caught else "passed" if seen == ["passed"] else "caught"
        return self._found(name, mark, ",".join(seen), why, time.monotonic() - start)

    @staticmethod
    def _found(name: str, mark: str, status: str, why: str, took: float) -> Found:
        line = f"{mark}  {name:26} {status:16} {took:5.1f} s  {' '.join(why.split())[:90]}"
        return Found(name, mark != "MISSED", line.rstrip())


def selected(device: str, only: str, part: str) -> list[str]:
    """Samples of a device, or the named ones of them; one part of several in turn."""
    names = [*chosen("check", device), *chosen("time", device)]
    if only:
        unknown = sorted(set(only.split(",")) - set(names))
        if unknown:
            raise SystemExit(f"no such sample on {device}: {', '.join(unknown)}")
        names = [name for name in names if name in only.split(",")]
    number, of = (int(one) for one in part.split("/"))
    if not 1 <= number <= of:
        raise SystemExit(f"--part {part}: from 1/{of} to {of}/{of}")
    return names[number - 1 :: of]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--scale", type=float, default=None)
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--part", default="1/1", metavar="N/OF")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--jobs", type=int, default=max(1, min(6, (os.cpu_count() or 1) // 2)))
    given = parser.parse_args()
    scale = given.scale or (0.02 if given.device == "cpu" else 1.0)
    start, right = time.monotonic(), 0
    names = selected(given.device, given.only, given.part)
    print(f"{len(names)} samples on {given.device}, {given.jobs} checks at a time", flush=True)
    left = dict.fromkeys(names)
    for found in Guards(given.device, scale, given.seconds).run(names, given.jobs):
        right += found.as_expected
        left.pop(found.name)
        print(found.line, flush=True)
    if left:
        print(f"not run within {given.seconds:.0f} s: {', '.join(left)}")
    took = time.monotonic() - start
    print(f"{right} of {len(names)} as expected on {given.device} in {took:.0f} s", flush=True)
    return 0 if right == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
