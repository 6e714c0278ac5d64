"""The documentation says all that the program has, and nothing that it has not."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import click
import msgspec
import polars as pl
import pytest

import solscope
from solscope import environment, events
from solscope.attribution.role_names import GROUPS, ROLES
from solscope.attribution.rule_set import Explanation, Match
from solscope.attribution.rules import CATEGORIES, Rule
from solscope.bench import audit
from solscope.bench import base as bench_base
from solscope.bench.results import contrast, leaderboard
from solscope.bench.results import score as bench_score
from solscope.cli import app, run
from solscope.compare import gate, parts, profiles
from solscope.demo import copying, ended
from solscope.diagnose import classic, compared, diagnosis, slow_rank
from solscope.diagnose.changes import counters, decompose, tails
from solscope.diagnose.statistics import two_samples
from solscope.diagnose.verdict import latent, outliers, ranking
from solscope.hardware import Figure, Hardware
from solscope.lab import pack, score
from solscope.profile import ProfileWarning
from solscope.ranks import clock as rank_clock
from solscope.ranks import load as rank_load
from solscope.readers import readers
from solscope.report.results import demo as report_demo
from solscope.views import (
    coverage,
    critical_path,
    efficiency,
    execution,
    host,
    host_stacks,
    idle,
    kernels,
    kv_cache,
    launch_queue,
    layers,
    memory,
    ranks,
    runs,
    slack,
    step_rows,
    steps,
    summary,
)
from solscope.whatif import predict as whatif

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("benchmarks/*.md")])
UPDATE = os.environ.get("SOLSCOPE_UPDATE_GOLDEN") == "1"

page_ids = [page.relative_to(ROOT).as_posix() for page in PAGES]
every_page = pytest.mark.parametrize("page", PAGES, ids=page_ids)


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Contents of the fenced blocks of one language that stand at the margin."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def headings(text: str) -> list[str]:
    return re.findall(
        r"^#+ (.*)$",
        re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE),
        re.MULTILINE,
    )


def section(text: str, heading: str) -> str:
    """From a heading of level two to the next one."""
    found = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert found, f"no section {heading!r}"
    return found.group(1)


def first_cells(text: str) -> list[str]:
    """The code in the first cell of every row of the tables in `text`."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


# --- Commands and their JSON


def options_of(command: click.Command) -> set[str]:
    own = {
        option
        for part in with_subcommands(command)
        for parameter in part.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    return own | {"--help", "-h"}


def with_subcommands(command: click.Command) -> list[click.Command]:
    """A command, and those of its group when it is one."""
    return [command, *(command.commands.values() if isinstance(command, click.Group) else ())]


STRUCTS: tuple[type[msgspec.Struct], ...] = (
    report_demo.Listing,
    report_demo.DemoRow,
    report_demo.ExampleRow,
    copying.Copied,
    ended.Ended,
    summary.Summary,
    summary.DeviceSummary,
    summary.CategoryTime,
    coverage.CoverageSummary,
    execution.Execution,
    execution.GraphUse,
    execution.Share,
    idle.IdleCause,
    kernels.KernelRow,
    kernels.KernelTable,
    layers.LayerTable,
    layers.LayerKind,
    layers.LayerCoverage,
    layers.Group,
    layers.Row,
    layers.KernelTime,
    steps.StepSummary,
    steps.PhaseSteps,
    step_rows.StepTable,
    step_rows.StepRow,
    step_rows.Unusual,
    runs.Run,
    runs.RankRow,
    ranks.RunRanks,
    ranks.RankTimes,
    ranks.CollectiveRow,
    ranks.Straggler,
    rank_clock.Clock,
    rank_clock.RankClock,
    rank_load.Imbalance,
    rank_load.LayerLoad,
    slow_rank.RankCause,
    memory.MemoryTable,
    memory.Allocating,
    host.HostTable,
    host_stacks.Waiting,
    host_stacks.WaitingStack,
    launch_queue.QueuePart,
    kv_cache.KvCacheUse,
    slack.OperatorSlack,
    critical_path.PathPart,
    efficiency.EfficiencyTable,
    efficiency.Rates,
    whatif.Predictions,
    whatif.Prediction,
    whatif.Stage,
    whatif.PredictedLine,
    profiles.Comparison,
    profiles.Side,
    profiles.PhaseComparison,
    profiles.StepTimes,
    parts.Part,
    parts.Difference,
    parts.OneSided,
    gate.GateResult,
    gate.Check,
    classic.Classic,
    classic.ClassicSide,
    classic.ClassicRow,
    classic.ClassicFinding,
    pack.Packed,
    score.LabScore,
    score.PairScore,
    score.GroupScore,
    score.ControlScore,
    score.Confusion,
    score.Rate,
    diagnosis.Diagnosis,
    compared.RunSummary,
    compared.Comparability,
    decompose.Component,
    counters.CounterChange,
    two_samples.Comparison,
    latent.Latent,
    outliers.Outliers,
    tails.TailQuantile,
    ranking.NamedCause,
    ranking.Excluded,
    ProfileWarning,
    Explanation,
    Match,
    environment.Environment,
    environment.Capability,
    Figure,
    Hardware,
    bench_score.Score,
    bench_score.OperatorScore,
    contrast.Contrast,
    contrast.ShapeContrast,
    leaderboard.Leaderboard,
    leaderboard.Entry,
    audit.Audit,
    audit.Finding,
)


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_json_field_is_documented(struct: type[msgspec.Struct]) -> None:
    words = set(re.findall(r"[`\"](\w+)[`\"]", read("docs/reference/json.md")))
    assert set(struct.__struct_fields__) <= words


@pytest.mark.parametrize("struct", [bench_base.ShapeResult, bench_base.Timing])
def test_every_field_of_a_benchmark_result_is_documented(struct: type[msgspec.Struct]) -> None:
    words = set(re.findall(r"`(\w+)`", read("docs/reference/bench-results.md")))
    assert set(struct.__struct_fields__) <= words


def test_every_status_of_a_benchmark_result_is_documented() -> None:
    text = section(read("docs/reference/bench-results.md"), "Status")
    assert first_cells(text) == list(get_args(bench_base.Status))


# --- Readers, warnings, categories, causes


def test_every_reader_is_documented() -> None:
    named = [h for h in headings(read("docs/reference/readers.md")) if re.fullmatch("[a-z_]+", h)]
    expected = list(readers().names())
    assert named == expected, (
        "docs/reference/readers.md needs one section for each of these, in this order: "
        + ", ".join(expected)
    )


@cache
def warning_codes() -> tuple[str, ...]:
    """All codes in the source."""
    return tuple(_warning_codes())


def _warning_codes() -> Iterator[str]:
    """First arguments of `ProfileWarning(...)` in the source.

    Where that argument is a variable, the codes are the keys of the dictionary it comes from.
    """
    for path in Path(solscope.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "ProfileWarning" not in text:  # Parsing takes long.
            continue
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef):
                continue
            nodes = list(ast.walk(function))
            made = [n for n in nodes if isinstance(n, ast.Call) and is_warning(n.func) and n.args]
            yield from (text for call in made for text in constants([call.args[0]]))
            if any(isinstance(call.args[0], ast.Name) for call in made):
                keys = [k for n in nodes if isinstance(n, ast.Dict) for k in n.keys if k]
                yield from constants(keys)


def is_warning(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id == "ProfileWarning"


def constants(nodes: list[ast.expr]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def test_every_warning_is_documented() -> None:
    documented = re.findall(r"^### (\w+)$", read("docs/reference/warnings.md"), re.MULTILINE)
    assert sorted(documented) == sorted(set(warning_codes()))


def test_warnings_named_under_readers_exist() -> None:
    text = read("docs/reference/readers.md")
    lists = re.findall(r"\*\*Warnings\*\*: (.*?)\.\n", text, re.DOTALL)
    named = {code for part in lists for code in re.findall(r"`(\w+)`", part)}
    assert len(named) > 10
    assert named <= set(warning_codes())


def test_every_category_is_documented() -> None:
    text = read("docs/reference/categories.md").partition("## How rules work")[0]
    assert tuple(first_cells(text)) == CATEGORIES


def test_every_key_of_a_rule_is_documented() -> None:
    text = section(read("docs/reference/categories.md"), "How rules work")
    assert tuple(first_cells(text)) == Rule.__struct_fields__


def test_the_worked_rule_example_holds(tmp_path: Path) -> None:
    (example,) = blocks(read("docs/reference/categories.md"), "toml")
    file = tmp_path / "acme.toml"
    file.write_text(example, encoding="utf-8")
    rules = solscope.load_rules([file])
    for rule in rules.rules[:2]:
        assert [rules.match(name).rule_id for name in rule.examples] == [rule.id]
    assert solscope.load_rules().match("acme_router_v2").category == "other"


def test_every_role_and_group_is_documented() -> None:
    text = read("docs/reference/roles.md")
    assert first_cells(text.partition("## Groups")[0]) == list(ROLES)
    assert first_cells(section(text, "Groups")) == list(GROUPS)


def test_every_cause_of_idle_time_is_documented() -> None:
    text = section(read("docs/explain/numbers.md"), "Idle by cause")
    assert first_cells(text) == list(idle.CAUSES)


# --- Columns

TABLES = {
    "Event table": events.EVENT_COLUMNS,
    "Aggregate table": events.AGGREGATE_COLUMNS,
    "Metric table": events.METRIC_COLUMNS,
    "Cycle table": events.CYCLE_COLUMNS,
}


def column_table(columns: tuple[events.Column, ...]) -> str:
    rows = [f"| `{c.name}` | {type(c.dtype).__name__} | {c.meaning} |\n" for c in columns]
    return "| column | type | meaning |\n|---|---|---|\n" + "".join(rows)


@pytest.mark.parametrize("heading", TABLES)
def test_columns_are_documented_as_declared(heading: str) -> None:
    page = DOCS / "reference" / "events.md"
    expected = column_table(TABLES[heading])
    if UPDATE:
        text = page.read_text(encoding="utf-8")
        body = section(text, heading)
        words = re.sub(r"(?m)^\|.*\n", "", body).strip()
        page.write_text(text.replace(body, f"\n{words}\n\n{expected}\n"), encoding="utf-8")
    assert expected in section(page.read_text(encoding="utf-8"), heading)


def test_every_kind_is_documented() -> None:
    assert tuple(first_cells(section(read("docs/reference/events.md"), "Kinds"))) == events.KINDS


def test_columns_of_attribution_are_documented() -> None:
    activities = solscope.attribute(solscope.open("demo:vllm-mi300x-graph")).activities
    added = [name for name in activities.columns if name not in events.EVENT_SCHEMA]
    text = section(read("docs/reference/events.md"), "Columns added by attribution")
    assert sorted(first_cells(text)) == sorted(added)


# --- Public names and modules


@pytest.mark.parametrize("name", solscope.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    item = getattr(solscope, name)
    signature = ""
    if inspect.isfunction(item):
        signature = re.sub(r"= '(\w+)'", r'= "\1"', str(inspect.signature(item)))
        signature = signature.replace("'", "").replace('"', "'")
    assert re.search(
        rf"^### `{re.escape(name + signature)}[`(]", read("docs/reference/api.md"), re.MULTILINE
    )


def test_architecture_names_every_part() -> None:
    """Modules and folders of the package; of modules in folders only those worth a line."""
    parts = section(read("docs/architecture.md"), "The parts")
    rows = re.findall(r"^\| (`[\w/.`, ]+`) \|", parts, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    source = Path(solscope.__file__).parent
    for path in source.rglob("*.py"):
        part, slash, _ = path.relative_to(source).as_posix().partition("/")
        private = path.parent == source and part.startswith("_")
        assert private or part + slash in named, f"docs/architecture.md has no row {part + slash}"
    for name in named:
        assert (source / name).exists(), name


# --- Examples


def shell_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each `solscope ...` in the shell blocks, as command name and words."""
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"[|;&<>]+(?=\s|$)", line):
                words = shlex.split(part, comments=True) if part.count("'") % 2 == 0 else []
                if "--" in words:
                    words = words[: words.index("--")]
                if words[:1] == ["solscope"]:
                    yield words[1] if len(words) > 1 else "", words[2:]


@every_page
def test_shell_examples_name_real_commands_and_options(page: Path) -> None:
    for name, words in shell_commands(page.read_text(encoding="utf-8")):
        assert name in app.commands
        used = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert used <= options_of(app.commands[name]), f"solscope {name} {shlex.join(words)}"


def test_shell_examples_are_found() -> None:
    assert ("kernels", ["--top", "20", "trace.json.gz"]) in shell_commands(read("README.md"))


PYTHON_PAGES = ("README.md", "docs/reference/api.md", "docs/how-to/ci-and-scripts.md")
PYTHON = [
    pytest.param(code, id=f"{page}-{number}")
    for page in PYTHON_PAGES
    for number, code in enumerate(blocks(read(page), "python"), start=1)
]


@pytest.mark.parametrize("code", PYTHON)
def test_python_examples_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "example", "exec"), {"__name__": "example"})


SHOWN = [
    pytest.param(*block.split("\n", 1), id=block.split("\n", 1)[0])
    for page in ("README.md", "docs/how-to/daily-questions.md")
    for block in blocks(read(page), "text")
    if block.startswith("$ solscope ")
]


@pytest.mark.parametrize(("command", "shown"), SHOWN)
def test_readme_shows_real_output(
    command: str,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run(shlex.split(command)[2:])
    printed = capsys.readouterr().out.splitlines()
    at = 0
    for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
        lines = part.strip("\n").split("\n")
        if lines == [""]:
            continue
        at = printed.index(lines[0], at)
        assert printed[at : at + len(lines)] == lines


def test_readme_shows_several_commands() -> None:
    assert len(SHOWN) >= 3


def test_the_example_by_hand_comes_out_as_written(tmp_path: Path) -> None:
    (trace,) = blocks(read("docs/explain/numbers.md"), "json")
    file = tmp_path / "by-hand.json"
    file.write_text(trace, encoding="utf-8")

    result = solscope.summarize(solscope.attribute(solscope.open(file)))

    assert result.gpu_span_ms == 0.090
    assert result.gpu_busy_ms == 0.070
    assert result.kernel_time_ms == 0.080
    assert (result.comm_ms, result.exposed_comm_ms) == (0.040, 0.020)
    assert (result.memcpy_ms, result.exposed_memcpy_ms) == (0.010, 0.010)
    assert {part.cause: part.time_ms for part in result.idle} == {
        "launch": 0.008,
        "host": 0.007,
        "sync": 0.005,
    }
    shares = {part.category: round(part.pct, 1) for part in result.categories}
    assert shares == {"gemm": 44.4, "comm": 44.4, "memcpy": 11.1}


# --- Links, hygiene


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@every_page
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in map(slug, headings(target.read_text(encoding="utf-8"))), link


def test_index_lists_every_page() -> None:
    index = read("docs/README.md")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).as_posix()
        assert name == "README.md" or f"({name})" in index


def test_the_first_page_leads_to_the_benchmark() -> None:
    first = read("README.md")
    for page in (
        "how-to/benchmark-a-kernel",
        "how-to/make-a-kernel-faster",
        "reference/results",
        "reference/solutions",
    ):
        assert f"(docs/{page}.md)" in first


# Phrases that read like a translation; newcomers stumbled over each of them. Written in pieces,
# so that this file does not contain what it forbids.
STILTED = "(?i)" + "|".join(
    [
        r"to look instead of " + "read",
        r"\bto " + r"mail\b",
        r"\bis men" + "ded",
        r"\bmen" + r"ded\b",
        r"\bis no blind " + "test",
        r"is tiled " + "exactly",
        r"\bby family " + "only",
        r"hold operators " + "against",
        r"\bheld " + "against",
        r"\bfor " + "sure",
        r"\blies (?:well )?" + "beside",
        r"no way of " + "sending",
        r"is said at the " + "start",
        r"which package " + "lacks",
        r"\bis no " + "share",
        r"where " + r"to\?",
        r"has not the form " + "of",
        r"\btold " + "apart",
        r"that solscope " + "knows",
        r"without a " + "word",
    ]
)


def test_no_stilted_phrase_comes_back() -> None:
    suffixes = {".md", ".py", ".ts", ".tsx", ".toml", ".html"}
    files = [
        path
        for path in project_files()
        if path.suffix in suffixes and path.is_file() and (ROOT / "tests") not in path.parents
    ]
    texts = [" ".join(path.read_text(encoding="utf-8").split()) for path in files]
    # Polars searches ten times as fast as `re` does.
    phrases = pl.Series(texts, dtype=pl.String).str.extract_all(STILTED).to_list()
    found = {
        path.relative_to(ROOT).as_posix(): phrase
        for path, phrase in zip(files, phrases, strict=True)
        if phrase
    }
    assert found == {}


# Written in pieces, so that this file does not hold what it forbids.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"(?<![\w.~])/(?:" + "work|root|tmp" + r")/",
            "TO" + "DO",
            "FIX" + "ME",
            "--(?:extra-)?index" + "-url",
        ]
    )
)
PIECES = ("/" + "work/", "/" + "root/", "/" + "tmp/", "TO" + "DO", "FIX" + "ME", "index" + "-url")
"""One of these is in every match."""


def project_files() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_file_names_this_machine_or_unfinished_work() -> None:
    data = ROOT / "tests" / "data"
    found = []
    for path in project_files():
        if data in path.parents or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if any(piece in text for piece in PIECES):  # Much faster than to search for all at once.
            found += [f"{path.relative_to(ROOT)}: {m.group()}" for m in FORBIDDEN.finditer(text)]
    assert found == []
