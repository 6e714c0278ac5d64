"""Edits of results files show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from solscope.bench.audit import audit, inconsistencies
from solscope.bench.base import EVALUATOR, ShapeResult, Timing
from solscope.bench.results.digest import describe_edited, read_intact, with_digests
from solscope.bench.results.files import append_result
from solscope.bench.results.restate import suite_bound
from solscope.bench.results.score import select
from solscope.bench.run.agenda import Options, _read
from solscope.bench.workloads import workloads
from solscope.cli import run
from solscope.web.handlers.bench import bench
from solscope.web.library import Library

ROOT = Path(__file__).parents[3]
SHAPES = workloads("atrex")["rms_norm"]


def honest(at: int, solution: str = "mine") -> ShapeResult:
    """A line as a run writes it, without digests."""
    shape, device = SHAPES[at], "NVIDIA H200"
    bound = suite_bound("atrex", "rms_norm", shape.shape, device).bound_us or 0.0
    facts = {name: getattr(shape, name) for name in ("axes", "weight", "calls", "importance")}
    return ShapeResult(
        "rms_norm",
        shape.shape,
        solution,
        "passed",
        device,
        "cold-v1",
        median_us=4 * bound,
        samples=[4 * bound] * 3,
        samples_per_restart=[3],
        bound_us=bound,
        s=0.25,
        suite="atrex",
        evaluator=EVALUATOR,
        run={"id": "run-1"},
        **facts,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three lines of one run."""
    path, before = tmp_path / "r.jsonl", ""
    for at in range(3):
        result = with_digests(honest(at), before)
        before = result.run_digest
        append_result(path, result)
    return path


def change(file: Path, number: int, **fields: Any) -> None:
    lines = file.read_bytes().splitlines()
    lines[number] = msgspec.json.encode({**msgspec.json.decode(lines[number]), **fields})
    file.write_bytes(b"\n".join(lines) + b"\n")


def kinds(file: Path) -> list[tuple[int, str]]:
    return [(one.line, one.kind) for one in audit([file]).findings]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("evaluator", [1, 2, EVALUATOR])
def test_a_line_whose_digest_was_taken_off_does_not_count(
    file: Path, evaluator: int, alone: bool
) -> None:
    """Lines of the first evaluator never had any, unless others of their run have one."""
    run = {"run": {"id": "older"}} if alone else {}
    change(file, 1, evaluator=evaluator, digest="", run_digest="", **run)
    taken_off = evaluator > 1 or not alone
    left = [0, 2] if taken_off else [0, 1, 2]
    problems = [(one.line, one.kind, one.what) for one in audit([file]).findings]
    why = "it has no digest, and its evaluator gave it one"
    assert ((2, "edited", why) in problems) == taken_off
    results, edited = read_intact([file])
    assert [one.shape for one in results] == [SHAPES[at].shape for at in left]
    assert edited == ({str(file): [2]} if taken_off else {})


def test_what_was_not_touched_is_intact(file: Path) -> None:
    found = audit([file])
    assert (found.lines, found.intact, found.no_digest, found.findings) == (3, 3, 0, [])
    # another writer of the same JSON changes nothing
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    text = b"\n".join(msgspec.json.encode(dict(reversed(one.items()))) for one in lines)
    file.write_bytes(text)
    assert audit([file]).intact == 3


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"median_us": 0.1}, "its samples say otherwise"),
        ({"bound_us": 1e6}, "the suite gives"),
        ({"weight": 1.0}, "its weight is not the suite's"),
        ({"importance": 1.0}, "its importance is not the suite's"),
        ({"s": 5.0}, "s is not bound_us / median_us"),
        ({"axes": {"tokens": 1, "hidden": 1}}, "its axes are not those of shape"),
        ({"status": "crashed"}, "failed without a reason"),
        ({"solution": "theirs"}, "its digest does not fit"),
        ({"samples": [1.0, 1.0, 1.0]}, "its samples say otherwise"),
    ],
)
def test_every_edit_shows(file: Path, fields: dict[str, Any], what: str) -> None:
    change(file, 1, **fields)
    findings = audit([file]).findings
    assert {one.line for one in findings} == {2}
    assert findings[0].kind == "edited"
    assert any(what in one.what for one in findings), findings


def test_a_line_that_is_gone_or_added_breaks_its_run(file: Path) -> None:
    whole = file.read_bytes()
    first, second, third = whole.splitlines()
    file.write_bytes(b"\n".join([first, third]) + b"\n")
    assert kinds(file) == [(2, "broken_run")]
    file.write_bytes(b"\n".join([first, second, second, third]) + b"\n")
    assert kinds(file) == [(3, "broken_run")]
    file.write_bytes(whole)
    append_result(file, with_digests(honest(4), ""))
    assert kinds(file) == [(4, "broken_run")]


def test_a_ratio_of_five_does_not_pass() -> None:
    line = honest(0)
    fast = msgspec.structs.replace(line, median_us=(line.bound_us or 0) / 5, samples=[], s=5.0)
    assert [what for _, what in inconsistencies(fast)] == [
        "passed with S = 5, faster than the bound",
        "it has a time, and no samples of it",
    ]


@pytest.mark.parametrize("s", [None, 0.0])
def test_a_time_below_the_bound_shows_whatever_s_says(s: float | None) -> None:
    line = honest(0)
    tiny = msgspec.structs.replace(line, median_us=0.02, samples=[0.02], s=s)
    (what,) = [what for _, what in inconsistencies(tiny)]
    assert "faster than the bound" in what


@pytest.mark.parametrize(
    ("timing", "what"),
    [
        (Timing(median_us=1e-6, samples=[1e-6]), "no call takes so little"),
        (Timing(median_us=5.0, samples=[9.0, 9.0]), "by graph-v2 is not that of its samples"),
        (Timing(median_us=5.0), "a time by graph-v2, and no samples"),
        (Timing(reason="cannot be recorded"), None),
        (Timing(median_us=9.0, samples=[9.0, 9.001]), None),
    ],
)
def test_times_by_other_methods_are_checked(timing: Timing, what: str | None) -> None:
    line = msgspec.structs.replace(honest(0), methods={"graph-v2": timing})
    found = [said for _, said in inconsistencies(line)]
    assert found == [] if what is None else what in found[0]


def test_a_shape_that_the_suite_does_not_have_shows() -> None:
    invented = msgspec.structs.replace(honest(0), shape="9999")
    assert [what for _, what in inconsistencies(invented)] == [
        "atrex has no shape 9999 of rms_norm"
    ]
    own = msgspec.structs.replace(invented, suite="a suite of my own")
    assert [*inconsistencies(own)] == []


def test_a_file_without_lines_or_with_half_a_line_is_not_as_written(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    assert kinds(file) == [(3, "broken_run")]
    assert run(["bench", "verify", str(file)]) == 1
    assert "the last line was cut off" in capsys.readouterr().out
    file.write_bytes(b"\n")
    assert run(["bench", "verify", str(file)]) == 2
    assert capsys.readouterr().err == f"solscope: {file}: no results\n"


def test_weights_bounds_and_medians_are_not_believed() -> None:
    line = honest(0)
    edited = msgspec.structs.replace(
        line, weight=1.0, importance=1.0, bound_us=1e6, median_us=0.1, s=1e7
    )
    (found,) = select([edited])
    assert found == msgspec.structs.replace(line, s=found.s)
    assert found.s == pytest.approx(0.25)
    lower = msgspec.structs.replace(line, bound_us=0.1)  # a draw with less to do than the axes say
    assert select([lower])[0].bound_us == 0.1


def test_an_edited_line_does_not_count(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(file, 1, samples=[0.1] * 3, median_us=0.1)
    assert run(["bench", "score", str(file), "--json"]) == 0
    out, err = capsys.readouterr()
    assert f"{file}: ignored edited line 2; see solscope bench verify {file}" in err
    assert msgspec.json.decode(out)["operators"][0]["shapes_passed"] == 2
    assert run(["bench", "verify", str(file)]) == 1
    assert "3 lines: 2 as written, 0 with no digest, 1 with findings" in capsys.readouterr().out


def test_the_page_of_a_report_ignores_an_edited_line_and_says_so(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(file, 1, samples=[0.1] * 3, median_us=0.1)
    out = tmp_path / "page.html"
    assert run(["report", str(file), "-o", str(out)]) == 0
    assert "ignored edited line 2" in capsys.readouterr().err
    page = out.read_text(encoding="utf-8")
    assert "ignored edited line 2" in page
    assert '"median_us":0.1,' not in page


def test_the_dashboard_ignores_edited_lines_and_says_so(file: Path) -> None:
    library = Library([str(file)])
    whole = bench(library, {})
    assert (len(whole.shapes), "ignored" in whole.headline.sentence) == (3, False)
    change(file, 1, samples=[0.1] * 3, median_us=0.1)
    page = bench(Library([str(file)]), {})
    assert [shape.shape for shape in page.shapes] == ["0", "2"]
    assert "ignored edited line 2" in page.headline.sentence
    for line in (0, 2):
        change(file, line, median_us=0.2)
    ((_, why),) = Library([str(file)]).unreadable_results()
    assert "every line was edited" in why


def test_edited_lines_are_measured_again_by_resume(file: Path) -> None:
    change(file, 1, median_us=0.1)
    lines, _ = _read(Options(operators=["rms_norm"], solutions=[], resume=True, out=file))
    assert [line.shape for line in lines] == ["0", "2"]


def test_many_edited_lines_are_counted() -> None:
    (said,) = describe_edited({"a b.jsonl": list(range(1, 9))})
    assert said == (
        "a b.jsonl: ignored edited lines 1, 2, 3, 4, 5 and 3 more; "
        "see solscope bench verify 'a b.jsonl'"
    )


def test_committed_results_are_consistent() -> None:
    found = audit(sorted((ROOT / "results" / "bench").glob("*.jsonl")))
    assert found.findings == []
    assert found.intact + found.no_digest == found.lines
    assert found.other_solution == 0
