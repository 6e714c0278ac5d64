"""Pages of a report from the cache: the same file, and never that of anything else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from solscope import demo
from solscope.attribution import Attributed
from solscope.cache import background
from solscope.cache.listing import MANIFEST, stored
from solscope.cli import run
from solscope.pages import selection
from solscope.readers.opening import Opening
from tests.unit.cache.test_commands import cache, settled

__all__ = ["cache"]

DATA = Path(__file__).parents[2] / "data"
CONFIG = '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2}'
RULE = '[[rule]]\nid = "my.all"\ncategory = "copy"\npattern = "kernel"\n'
IMPORTED = """
import sys
from solscope.cli import run
code = run(sys.argv[1:])
assert code == 0, code
print(sorted({"numpy", "polars", "solscope.attribution"} & {*sys.modules}))
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    small = demo.resolve("demo:vllm-mi300x-graph")
    return settled(Path(shutil.copy(small, tmp_path / "trace.json.gz")))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The profiles of each report that did not come from the cache; its pages hold a number."""
    found: list[str] = []

    def make(profiles: Sequence[Attributed], *_: object, **__: object) -> list[dict[str, int]]:
        found.append(" ".join(Path(each.profile.path).name for each in profiles))
        return [{"number": len(found)}]

    monkeypatch.setattr(selection, "pages_of_profiles", make)
    return found


def report(*arguments: str | Path, code: int = 0) -> bytes:
    """The file that a command writes, in a folder in which only that file is."""
    out = Path(os.environ["SOLSCOPE_CACHE_DIR"]).parent / "report.html"
    out.unlink(missing_ok=True)
    assert run(["report", *map(str, arguments), "-o", str(out)]) == code
    background.wait()
    return out.read_bytes() if code == 0 else b""


def test_a_report_from_the_cache_is_the_same_file(cache: Path, trace: Path) -> None:
    without = report(trace, "--no-cache")
    assert not cache.exists()
    assert report(trace) == without
    assert report(trace) == without


def test_a_report_is_made_once(cache: Path, trace: Path, made: list[str]) -> None:
    first = report(trace)
    assert report(trace) == first
    assert len(made) == 1
    assert report(trace, "--no-cache") != first
    assert report(trace) == first
    assert len(made) == 2
    assert run(["cache", "clear"]) == 0
    assert report(trace) != first
    assert len(made) == 3


def test_what_pages_depend_on_is_part_of_their_key(
    cache: Path, trace: Path, made: list[str], tmp_path: Path
) -> None:
    other = settled(Path(shutil.copy(trace, tmp_path / "other.json.gz")))
    config, rules = tmp_path / "config.json", tmp_path / "rules.toml"
    config.write_text(CONFIG)
    rules.write_text(RULE)
    card = tmp_path / "card.toml"
    shutil.copy(DATA.parents[1] / "src" / "solscope" / "hardware" / "H100.toml", card)
    kinds: list[tuple[str | Path, ...]] = [
        (trace,),
        (other,),
        (trace, other),
        (other, trace),
        (trace, other, "--diagnose"),
        (trace, "--hardware", "H100"),
        (trace, "--hardware", card),
        (trace, "--model", config),
        (trace, "--model", config, "--batch", "2"),
        (trace, "--rules", rules),
        (trace, "--max-expansion", "100"),
    ]
    first = [report(*kind) for kind in kinds]
    assert len({*first}) == len(made) == len(kinds)
    assert [report(*kind) for kind in kinds] == first
    assert len(made) == len(kinds)
    for file in (config, rules, card):
        file.write_text(file.read_text() + "\n")
    for kind in kinds[6:10]:
        report(*kind)
    assert len(made) == len(kinds) + 4


def test_a_changed_profile_or_metrics_file_makes_new_pages(
    cache: Path, trace: Path, made: list[str]
) -> None:
    report(trace)
    metrics = trace.with_name("trace.metrics.csv")
    metrics.write_text("t_ns,metric,device,value\n1,cpu,Host,1.0\n")
    settled(metrics)
    report(trace)
    metrics.unlink()
    report(trace)
    assert len(made) == 2
    shutil.copy(DATA / "kineto_b200.json.gz", trace)
    settled(trace)
    report(trace)
    assert len(made) == 3


@pytest.mark.parametrize("before", [None, "2.0"])
def test_metrics_that_change_after_reading_are_not_those_of_the_pages(
    cache: Path,
    trace: Path,
    made: list[str],
    monkeypatch: pytest.MonkeyPatch,
    before: str | None,
) -> None:
    metrics = trace.with_name("trace.metrics.csv")
    text = "t_ns,metric,device,value\n1,cpu,Host,{}\n"
    if before is not None:
        metrics.write_text(text.format(before))
        settled(metrics)
    make = selection.pages_of_profiles

    def late(*arguments: Any, **options: Any) -> Any:
        pages = make(*arguments, **options)
        metrics.write_text(text.format("1.0"))
        settled(metrics)
        return pages

    with monkeypatch.context() as patch:
        patch.setattr(selection, "pages_of_profiles", late)
        stale = report(trace)
    fresh = report(trace)
    assert fresh != stale
    assert report(trace) == fresh
    assert len(made) == 2


def test_a_diagnosis_by_causes_of_other_packages_is_not_stored(
    cache: Path, trace: Path, made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = settled(Path(shutil.copy(trace, tmp_path / "other.json.gz")))
    report(trace, other, "--diagnose")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [group])
    report(trace, other, "--diagnose")
    report(trace, other, "--diagnose")
    assert len(made) == 3


def test_other_code_makes_new_pages(
    cache: Path, trace: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from solscope.cache import code

    report(trace)
    monkeypatch.setattr(code, "program_version", lambda: "other")
    report(trace)
    assert len(made) == 2


def test_a_file_that_is_replaced_while_it_is_read_is_not_stored(
    cache: Path, trace: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Opening._read

    def replaced(self: Opening) -> object:
        profile = read(self)
        shutil.copy(DATA / "kineto_b200.json.gz", trace)
        return profile

    with monkeypatch.context() as patch:
        patch.setattr(Opening, "_read", replaced)
        wrong = report(trace)
    settled(trace)
    assert report(trace) != wrong
    assert len(made) == 2


def test_damaged_pages_are_made_again(cache: Path, trace: Path, made: list[str]) -> None:
    first = report(trace)
    for entry in stored(cache):
        manifest = entry.path / MANIFEST
        manifest.write_bytes(manifest.read_bytes().replace(b'"title"', b'"tilte"'))
    again = report(trace)
    assert again != first
    assert report(trace) == again


def test_mistakes_are_reported_with_pages_in_the_cache(
    cache: Path, trace: Path, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    report(trace)
    for wrong in (["--batch", "2"], ["--hardware", "none"], ["--rules", "none"]):
        report(trace, *wrong, code=2)
    assert len(capsys.readouterr().err.splitlines()) >= 3


def test_small_files_and_readers_of_several_files_are_not_stored(
    cache: Path, trace: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = settled(Path(shutil.copy(DATA / "run.metrics.csv", trace.with_name("run.csv"))))
    report(metrics)
    report(metrics)
    assert len(made) == 2
    monkeypatch.setenv("SOLSCOPE_CACHE_MIN_BYTES", str(1 << 30))
    report(trace)
    report(trace)
    assert len(made) == 4


def test_from_the_cache_none_of_the_data_libraries_is_imported(
    cache: Path, trace: Path, made: list[str]
) -> None:
    page = report(trace)
    out = trace.with_name("again.html")
    line = [sys.executable, "-c", IMPORTED, "report", str(trace), "-o", str(out)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert out.read_bytes() == page
