"""Every command's JSON has one form, which it names and which is published."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from jsonschema import Draft202012Validator

from solscope.cli import app, run
from solscope.report.forms import all_forms
from solscope.report.schemas import json_schema
from tests.json_output import document

DATA = Path(__file__).parents[2] / "data"
B200, GRAPH, NORMAL, SLOW = (
    f"demo:{name}" for name in ("vllm-b200", "vllm-mi300x-graph", "h200-normal", "h200-slow")
)
CASES: dict[str, list[tuple[str, ...]]] = {
    "show": [
        ("show", B200),
        ("show", B200, GRAPH),
        ("show", "demo:ranks"),
        ("show", str(DATA / "nsys_kern_sum.txt")),
        ("show", str(DATA / "nsys_h100.sqlite")),
        ("show", str(DATA / "run.metrics.csv")),
    ],
    "show_slowest": [("show", "--slowest", NORMAL)],
    "kernels": [
        ("kernels", B200),
        ("kernels", "--slowest", NORMAL),
        ("kernels", "--by", "op", GRAPH),
        ("kernels", str(DATA / "nsys_kern_sum.txt")),
    ],
    "kernels_explain": [("kernels", "--explain", "ncclDevKernel_AllReduce_Sum")],
    "layers": [("layers", B200), ("layers", B200, GRAPH), ("layers", "--stat", "p90", B200)],
    "compare_runs": [("compare", "demo:ranks", "demo:ranks")],
    "layers_run": [("layers", "demo:ranks")],
    "ranks": [("ranks", "demo:ranks")],
    "ranks_several": [("ranks", "demo:ranks", "demo:ranks")],
    "operators": [("operators", B200), ("operators", B200, GRAPH)],
    "hotspots": [("hotspots", B200), ("hotspots", NORMAL, SLOW)],
    "whatif": [
        ("whatif", NORMAL, "--graphs", "--batch", "64"),
        ("whatif", NORMAL, "--batch", "1..8"),
    ],
    "compare": [("compare", B200, GRAPH), ("compare", NORMAL, SLOW)],
    "compare_kernels": [("compare", "--kernels", NORMAL, SLOW, B200)],
    "gate": [
        ("gate", NORMAL, NORMAL, "--max-regression", "5%"),
        ("gate", NORMAL, SLOW, "--max-regression", "5%"),
    ],
    "diagnose": [("diagnose", NORMAL, SLOW), ("diagnose", NORMAL, NORMAL)],
    "diagnose_single": [("diagnose", SLOW)],
    "diagnose_classic": [("diagnose", NORMAL, SLOW, "--classic")],
    "report": [("report", B200, "-o", "{tmp}/report.html")],
    "export": [("export", GRAPH, "--redact", "--csv", "{tmp}/a.csv")],
    "suite_list": [("suite", "list"), ("suite", "list", "--suite", "decode")],
    "suite_show": [("suite", "show", "mla_decode_attention")],
    "suite_roofline": [
        ("suite", "roofline"),
        ("suite", "roofline", "--hardware", "H200", "--bound", "corrected"),
    ],
    "suite_shapes_medians": [("suite", "shapes")],
    "suite_shapes": [("suite", "shapes", "rms_norm")],
    "suite_shapes_listed": [("suite", "shapes", "dense_gemm", "--suite", "decode")],
    "hardware_list": [("hardware", "list")],
    "hardware_show": [("hardware", "show", "H200", "B200"), ("hardware", "show", "MI300X")],
    "bench_new": [("bench", "new", "rms_norm", "-o", "{tmp}/solution")],
    "bench_score": [("bench", "score", "demo:bench-h200")],
    "bench_compare": [("bench", "compare", "demo:bench-h200", "demo:bench-h200")],
    "bench_leaderboard": [("bench", "leaderboard", "demo:bench-h200")],
    "bench_verify": [("bench", "verify", "demo:bench-h200")],
    "capture": [("capture", "-o", "{tmp}/run.metrics.csv", "--", sys.executable, "-c", "pass")],
    "capture_list": [("capture", "--list")],
    "lab_score": [("lab", "score", "demo:lab")],
    "demo": [("demo",)],
    "demo_copy": [("demo", "copy", "{tmp}/demo")],
    "demo_run": [("demo", "run", "suite")],
    "cache_info": [("cache", "info")],
    "cache_clear": [("cache", "clear")],
    "doctor": [("doctor",)],
    "corpus_init": [("corpus", "init", "{tmp}/new")],
    "corpus_add": [("corpus", "add", "{store}", "demo:qwen-mi300x", "--workers", "1")],
    "corpus_status": [("corpus", "status", "{store}")],
    "corpus_list": [("corpus", "list", "{store}")],
    "corpus_importance": [
        ("corpus", "importance", "{store}"),
        ("corpus", "importance", "{store}", "--by", "category"),
    ],
    "corpus_shapes": [("corpus", "shapes", "{store}")],
    "corpus_trend": [("corpus", "trend", "{store}", "step")],
    "corpus_watch": [("corpus", "watch", "{store}", str(DATA / "limits.toml"))],
    "corpus_query": [("corpus", "query", "{store}", "select id, gpu from profiles")],
    "corpus_verify": [("corpus", "verify", "{store}")],
    "corpus_repair": [("corpus", "repair", "{store}")],
    "corpus_spool": [("corpus", "spool", "{store}", "{tmp}", "--once")],
    "corpus_backup": [("corpus", "backup", "{store}", "{tmp}/backup")],
    "corpus_restore": [("corpus", "restore", "{store}", "{tmp}/restored")],
    "corpus_export": [("corpus", "export", "{store}", "{tmp}/export")],
    "corpus_import": [("corpus", "import", "{store}", "{exported}")],
    "corpus_migrate": [("corpus", "migrate", "{store}")],
    "corpus_compact": [("corpus", "compact", "{store}")],
    "corpus_export_suite": [("corpus", "export-suite", "{store}", "{tmp}/suite.json")],
    "corpus_remove": [("corpus", "remove", "{store}", GRAPH)],
}
"""Commands that print each form; exit code 1 is an answer.

Those of other forms are `COMMAND_LINES` in the test of what the command computes.
"""
ELSEWHERE = {
    "bench_check": "tests/unit/bench/run/test_evaluate.py",
    "bench_profile": "tests/unit/bench/test_counters.py",
    "bench_tune": "tests/unit/bench/test_tune.py",
    "bench_run": "the same function prints it as bench_check",
    "hardware_measure": "needs a GPU; the same function prints it as hardware_show",
    "lab_pack": "tests/unit/lab/test_pack.py",
    "lab_record": "tests/unit/lab/test_record.py",
    "suite_verify": "tests/unit/suite/test_published_page.py",
}
"""Forms that take longer to get; they are checked where they are tested anyway."""


def collected(name: str) -> list[tuple[str, ...]] | None:
    """`COMMAND_LINES` of a unit test named after the form, such as `views/test_host.py`."""
    for path in sorted(Path(__file__).parents[1].glob(f"*/test_{name}.py")):
        if "COMMAND_LINES" in path.read_text(encoding="utf-8"):
            module = import_module(f"tests.unit.{path.parent.name}.{path.stem}")
            return [tuple(shlex.split(line)) for line in module.COMMAND_LINES]
    return None


CASES |= {
    name: lines
    for name in all_forms()
    if name not in CASES and name not in ELSEWHERE and (lines := collected(name))
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with three profiles."""
    pytest.importorskip("deltalake")
    path = str(tmp_path_factory.mktemp("corpus") / "store")
    assert run(["corpus", "init", path]) == 0
    assert run(["corpus", "add", path, B200, GRAPH, "demo:qwen-h100", "--workers", "1"]) == 0
    return path


@pytest.fixture
def exported(store: str, tmp_path: Path) -> str:
    """An export of that store."""
    path = str(tmp_path / "exported")
    assert run(["corpus", "export", store, path]) == 0
    return path


@pytest.mark.parametrize("name", CASES)
def test_output_has_the_form_it_names(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in CASES[name]:
        places = {"tmp": str(tmp_path)}
        for place in ("store", "exported"):
            if f"{{{place}}}" in words:
                places[place] = request.getfixturevalue(place)
        arguments = [word.format(**places) if "{" in word else word for word in words]
        # What follows `--` is not ours.
        at = arguments.index("--") if "--" in arguments else len(arguments)
        capsys.readouterr()
        assert run([*arguments[:at], "--json", *arguments[at:]]) in (0, 1)
        found = document(capsys.readouterr().out)
        assert found["schema"] == f"solscope.{name}/1"
        # The form does not depend on the number of files.
        if name in ("show", "operators", "hotspots") and "demo:ranks" not in words:
            assert len(found["profiles"]) == len(words) - 1


def _forms(group: click.Group, context: click.Context, path: tuple[str, ...]) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _forms(command, context, (*path, name))
        if any("--json" in parameter.opts for parameter in command.params):
            yield "_".join((*path, name)).replace("-", "_")


def test_every_command_with_json_has_a_schema_and_a_test() -> None:
    context = app.make_context("solscope", [], resilient_parsing=True)
    commands, forms = set(_forms(app, context, ())), set(all_forms())
    assert commands <= forms
    # Other forms are those that an option of a command gives.
    assert all(
        any(name.startswith(f"{command}_") for command in commands) for name in forms - commands
    )
    assert set(CASES) | set(ELSEWHERE) <= forms
    for name in forms - set(CASES) - set(ELSEWHERE):
        pytest.fail(
            f"no test prints the form {name!r}: define COMMAND_LINES, command lines without the "
            f"word solscope, in the test_{name}.py of what the command computes"
        )


@pytest.mark.long
@pytest.mark.parametrize("name", all_forms())
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(json_schema(name))


def test_schema_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert capsys.readouterr().out.split() == list(all_forms())
    for name in ("corpus_importance", "corpus importance", "solscope.corpus_importance/1"):
        assert run(["schema", name]) == 0
        assert json.loads(capsys.readouterr().out) == json_schema("corpus_importance")
    assert run(["schema", "nothing"]) == 2
    assert "no schema 'nothing'" in capsys.readouterr().err
