"""Every example of `solscope demo` does what it says, and demos work wherever files do."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import solscope
from solscope import demo
from solscope.cli import app, run
from solscope.demo.copying import copy_demos
from solscope.demo.examples import EXAMPLES, TOUR, Example, on_files
from solscope.errors import InputError
from solscope.web.answer_cache import DiskCache
from solscope.web.sources import check_sources, find_results, find_sources
from tests.sampling import some

MOST_BYTES = 3_000_000
FACTS = {
    "show": r"NVIDIA B200",
    "kernels": r"multimem_all_reduce_kernel",
    "layers": r"attention\s+qkv",
    "compare": r"step time, start to start\s+34\.892\s+33\.131",
    "operators": r"aten::mm m=8944",
    "hotspots": r"host",
    "host": r"waits 492\.33 of 694\.94 ms",
    "efficiency": r"decode",
    "whatif": r"B200, fp8, graphs: 2\.7",
    "memory": r"peak 2,088\.51 MB in aten::mul",
    "diagnose": r"\b97 % cpu_contention",
    "gate": r"worse: decode step",
    "ranks": r"wait for rank 2",
    "report": r"report\.html",
    "export": r"slow\.json\.gz",
    "corpus": r"all_reduce",
    "bench": r"mla_decode_attention",
    "lab": r"3 moved, 0 latent, 2 without a fault",
    "suite": r"rms_norm",
    "hardware": r"B200",
    "capture": r"metrics_only",
    "cache": r"cache",
    "schema": r"max_regression|verdict",
    "doctor": r"solscope",
}
"""A fact that the output must have, for each example of the tour that runs."""


def runnable(example: Example) -> Example:
    if example.needs is not None and find_spec(example.needs) is None:
        pytest.skip(f"needs {example.needs}")
    if example.linux and sys.platform != "linux":
        pytest.skip("needs Linux")
    return example


@pytest.mark.parametrize(
    "example",
    some((one for one in EXAMPLES if one.runs), 2),
    ids=lambda example: str(example.name),
)
def test_every_example_runs(
    example: Example, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runnable(example)
    monkeypatch.setenv("COLUMNS", "120")  # Narrower tables shorten the names that FACTS look for.
    code = run(["demo", "run", example.name, "--json"])
    ended = json.loads(capsys.readouterr().out)["commands"]
    assert code == 0, ended
    assert [one["command"] for one in ended] == example.lines
    assert ended[-1]["exit_code"] == example.exit_code
    assert re.search(FACTS.get(example.name, r"\w"), "".join(one["output"] for one in ended))


def test_every_command_has_an_example() -> None:
    tried = {shlex.split(command)[0] for example in EXAMPLES for command in example.commands}
    missing = set(app.commands) - tried - {"demo"}
    text = "show a command with a demo: file in their help (then run scripts/generate.py)"
    assert missing == set(), f"{text}, or add them to TOUR in demo/examples.py: {missing}"


def test_every_example_of_the_tour_has_a_fact() -> None:
    assert set(FACTS) == {example.name for example in TOUR if example.runs}


def test_examples_on_copies_name_files_that_are_there(tmp_path: Path) -> None:
    copied = copy_demos(tmp_path / "copy")
    assert on_files("show demo:ranks --top 3") == "show ranks --top 3"
    for example in EXAMPLES:
        for line in example.lines:
            for word, copy in zip(shlex.split(line), shlex.split(on_files(line)), strict=True):
                assert word == copy or (tmp_path / "copy" / copy).exists()
                assert copy in (tmp_path / "copy" / "README.md").read_text("utf-8")
    assert "h200-slow.metrics.csv" in copied.files


def test_a_copy_is_diagnosed_like_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_demos(tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    runs = ["h200-normal.trace.json.zst", "h200-slow.trace.json.zst"]
    assert run(["diagnose", *runs, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["causes"][0]["id"] == "cpu_contention"


def test_copying_replaces_only_an_earlier_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    assert run(["demo", "copy", str(target)]) == 0
    assert run(["demo", "copy", str(target)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["demo", "copy", str(target), "--force"]) == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine", encoding="utf-8")
    assert run(["demo", "copy", str(other), "--force"]) == 2
    assert (other / "mine.txt").is_file()


def test_copying_again_keeps_what_commands_wrote(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    copied = copy_demos(target)
    (target / "report.html").write_text("mine", encoding="utf-8")
    (target / "store").mkdir()
    (target / "store" / "rows").write_text("mine", encoding="utf-8")
    (target / "ranks" / "notes.txt").write_text("mine", encoding="utf-8")
    (target / "bench-h200.jsonl").write_text("damaged", encoding="utf-8")
    (target / "vllm-b200.json.gz").unlink()
    assert copy_demos(target, force=True) == copied
    for name in ("report.html", "store/rows", "ranks/notes.txt"):
        assert (target / name).read_text("utf-8") == "mine"
    for name in ("bench-h200.jsonl", "vllm-b200.json.gz"):
        assert (target / name).read_bytes() == (demo.FOLDER / name).read_bytes()
    assert [path for path in tmp_path.rglob(".*") if path.name != ".gitignore"] == []


def test_what_examples_write_goes_to_the_output_folder(tmp_path: Path) -> None:
    before = Path.cwd()
    assert run(["demo", "run", "report", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    assert Path.cwd() == before


def test_a_command_that_fails_makes_the_run_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Example("broken", "?", ("show missing.json.gz",))
    monkeypatch.setattr("solscope.cli.commands.demo.examples.EXAMPLES", (broken,))
    assert run(["demo", "run"]) == 1
    assert "(exit code 2, expected 0)" in capsys.readouterr().out


def test_a_missing_dependency_skips_the_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wants = Example("wants", "?", ("doctor",), needs="no_such_module", extra="web")
    monkeypatch.setattr("solscope.cli.commands.demo.examples.EXAMPLES", (wants,))
    assert run(["demo", "run"]) == 0
    assert "skipped: needs pip install 'solscope[web]'" in capsys.readouterr().out


def test_unknown_and_endless_examples_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "run", "nothing"]) == 2
    assert "available: show, kernels" in capsys.readouterr().err
    assert run(["demo", "run", "serve"]) == 2
    assert "start it yourself" in capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_list_fits_and_commands_stay_whole(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["demo"]) == 0
    printed = capsys.readouterr().out
    for example in EXAMPLES:
        assert all(line in printed for line in example.lines)
    assert width < 80 or max(map(len, printed.splitlines())) <= width


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in found["recordings"]]
    assert names == [f"demo:{name}" for name in demo.DEMOS]
    assert sum(row["bytes"] for row in found["recordings"]) < MOST_BYTES


# --- `demo:` wherever files are


def test_a_run_is_its_ranks() -> None:
    ranks = [f"demo:ranks/rank{rank}.trace.json.zst" for rank in range(4)]
    assert solscope.find_profiles(["demo:ranks"]) == ranks
    assert solscope.open(ranks[2]).path == ranks[2]
    assert solscope.open(ranks[2]).metadata.rank == 2


def test_sensor_samples_come_with_a_demo() -> None:
    profile = solscope.open("demo:h200-slow")
    assert profile.metrics is not None
    assert "runq_ns" in profile.metrics["metric"].unique().to_list()
    assert [warning.code for warning in profile.warnings] == []


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("demo:nothing", "available: vllm-b200"),
        ("demo:ranks", "name one of them: demo:ranks/rank0"),
        ("demo:ranks/rank9.json", "no such file"),
        ("demo:ranks/../vllm-b200.json.gz", "no such file"),
        ("demo:ranks//etc/hostname", "no such file"),
        ("demo:ranks///", "name one of them: demo:ranks/rank0"),
        ("demo:bench-h200", "solscope bench score demo:bench-h200"),
        ("demo:lab", "solscope lab score demo:lab"),
    ],
)
def test_what_is_no_profile_is_refused_with_a_hint(path: str, hint: str) -> None:
    with pytest.raises(InputError, match=re.escape(hint)):
        solscope.open(path)


def test_the_dashboard_takes_runs_and_results() -> None:
    sources = ["demo:vllm-b200", "demo:ranks", "demo:bench-h200"]
    check_sources(sources, DiskCache(None))
    assert len(find_sources(sources, DiskCache(None)).paths) == 5
    assert [Path(path).name for path in find_results(sources)] == ["bench-h200.jsonl"]
    with pytest.raises(InputError, match="no such demo"):
        check_sources(["demo:nothing"], DiskCache(None))


def test_no_demo_names_a_machine_or_user() -> None:
    """Only facts that a header needs are bundled: no host names, users or folders of homes."""
    for name in ("qwen-h100", "qwen-mi300x", "h200-normal", "ranks/rank0.trace.json.zst"):
        profile = solscope.open(f"demo:{name}")
        assert profile.metadata.host is None
        names = profile.events["name"].cast(str).unique().drop_nulls().to_list()
        assert [n for n in names if re.search(r"/home/|/Users/", n)] == []
