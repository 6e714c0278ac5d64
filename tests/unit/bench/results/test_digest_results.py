"""Lines that lost their digest get one only where they are of the files at hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
STEPS = ROOT / "results" / "layer-norm-steps" / "h200.jsonl"
KERNELS = ROOT / "examples" / "kernels" / "layer_norm"
Digested = Callable[[Path, Sequence[str]], tuple[list[str], int]]


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> Iterator[Digested]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import digest_results  # type: ignore[import-not-found]

    yield digest_results.digested
    sys.modules.pop("digest_results")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The measured steps without digests."""
    lines = [json.loads(line) for line in STEPS.read_text("utf-8").splitlines()]
    kept = [{k: v for k, v in one.items() if k not in ("digest", "run_digest")} for one in lines]
    file = tmp_path / "bare.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in kept), "utf-8")
    return file


def test_digests_come_back_as_they_were(digested: Digested, bare: Path) -> None:
    paths = [str(path) for path in KERNELS.glob("*.py")]
    lines, given = digested(bare, paths)
    assert given == 4
    assert lines == STEPS.read_text("utf-8").splitlines()


def test_a_solution_that_is_not_at_hand_gets_none(digested: Digested, bare: Path) -> None:
    lines, given = digested(bare, [str(KERNELS / "step1_rows.py")])
    assert given == 1
    assert ["digest" in json.loads(line) for line in lines] == [True, False, False, False]


def test_another_file_of_the_same_name_is_not_it(
    digested: Digested, bare: Path, tmp_path: Path
) -> None:
    other = tmp_path / "step1_rows.py"
    other.write_bytes((KERNELS / other.name).read_bytes() + b"# faster\n")
    assert digested(bare, [str(other)])[1] == 0
