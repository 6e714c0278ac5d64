"""The pages about the store say what it has."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from solscope.corpus import schema, spool, status
from solscope.corpus.ingest import add
from solscope.corpus.ingest.engines import ENGINES
from solscope.corpus.maintenance import (
    backup,
    exchange,
    lost_batches,
    migrate,
    repair,
    verify,
)
from solscope.corpus.queries import importance, listing, published, shape_origins, shapes, trend
from solscope.corpus.store import create_corpus
from solscope.corpus.watch import limits, rules, watching
from solscope.suite.atrex import load_suite

DOCS = Path(__file__).parents[3] / "docs"
REFERENCE = DOCS / "reference" / "corpus.md"
EXPLAINED = DOCS / "explain" / "importance.md"
UPDATE = os.environ.get("SOLSCOPE_UPDATE_GOLDEN") == "1"

STRUCTS: tuple[type[msgspec.Struct], ...] = (
    status.CorpusStatus,
    add.AddResult,
    add.FailedFile,
    listing.ListedProfile,
    verify.Verification,
    verify.Problem,
    repair.RepairResult,
    repair.TableRepair,
    repair.Unrepaired,
    lost_batches.LostBatch,
    migrate.Migration,
    spool.SpoolResult,
    backup.Backup,
    exchange.Exported,
    exchange.Imported,
    importance.Importance,
    importance.ImportanceGroup,
    importance.ImportanceRow,
    shapes.HotShapes,
    shapes.OperatorShapes,
    shapes.HotShape,
    shape_origins.ShapeOrigin,
    trend.Trend,
    trend.TrendPoint,
    trend.TrendChange,
    watching.Watch,
    watching.Watched,
    watching.WatchedProfile,
    watching.WatchDiagnosis,
    limits.Earlier,
    limits.Limit,
)


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_json_field_is_documented(struct: type[msgspec.Struct]) -> None:
    words = set(re.findall(r"`(\w+)`", REFERENCE.read_text(encoding="utf-8")))
    assert set(struct.__struct_fields__) <= words


def test_every_metric_and_key_of_a_rule_is_documented() -> None:
    page = (DOCS / "how-to" / "watch-a-store.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    assert rows == set(rules.UNITS) | set(rules.Rule.__struct_fields__)


@pytest.mark.parametrize("name", ["profiles", "times", "steps", "batches"])
def test_columns_are_documented_as_declared(name: str) -> None:
    rows = [f"| `{c.name}` | {_type(c)} | {c.meaning} |\n" for c in schema.ALL_TABLES[name]]
    expected = "| column | type | meaning |\n|---|---|---|\n" + "".join(rows)
    text = REFERENCE.read_text(encoding="utf-8")
    heading = f"## Table {name}\n"
    start = text.index(heading) + len(heading)
    end = text.index("\n## ", start)
    if UPDATE:
        REFERENCE.write_text(f"{text[:start]}\n{expected}{text[end:]}", encoding="utf-8")
        return
    assert expected in text[start:end] + "\n"


def _type(column: schema.StoreColumn) -> str:
    return str(column.dtype)


def test_engines_are_documented() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in ENGINES)


def test_the_published_importance_is_compared_as_the_page_says(tmp_path: Path) -> None:
    """The table of the page is what `corpus importance` gives on a store of the suite's data."""
    corpus = create_corpus(tmp_path / "store")
    published.add_published(corpus)
    found = published.compare_published(corpus)

    assert verify.verify(corpus).ok
    assert sum(row.normalized_pct for row in found.rows) == pytest.approx(100)
    for name in ("recorded_pct", "estimated_pct"):
        assert sum(getattr(row, name) or 0 for row in found.rows) == pytest.approx(100)
    expected = _published_table(found)
    text = EXPLAINED.read_text(encoding="utf-8")
    before, _, rest = text.partition("<!-- published -->\n")
    old, mark, after = rest.partition("<!-- /published -->")
    if UPDATE:
        new = f"{before}<!-- published -->\n{expected}{mark}{after}"
        EXPLAINED.write_text(new, encoding="utf-8")
        return
    assert old == expected


def _published_table(found: published.PublishedTable) -> str:
    head = "| operator | profiles | published | recorded | estimated | difference |\n"
    rows = [head, "|---|--:|--:|--:|--:|---|\n"]
    for row in found.rows:
        beyond = row.frequency_pct is not None and row.normalized_pct > row.frequency_pct
        rows.append(
            f"| {row.operator} | {row.profiles} | {'> ' if beyond else ''}"
            f"{row.normalized_pct:.2f} % | {_pct(row.recorded_pct)} | {_pct(row.estimated_pct)} | "
            f"{row.reason} |\n"
        )
    return "".join(rows)


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} %"


def test_what_the_page_says_about_the_published_data(tmp_path: Path) -> None:
    corpus = create_corpus(tmp_path / "store")
    published.add_published(corpus)
    found = published.compare_published(corpus)
    assert sum(row.counted_shapes for row in found.rows) == 305
    assert sum(row.timed_shapes for row in found.rows) == 91
    first = found.rows[0]
    assert (first.operator, first.profiles, round(first.frequency_pct or 0, 1)) == (
        "unified_attention",
        94,
        7.2,
    )
    assert round(first.published_pct, 1) == 39.5
    few = [
        op.name
        for op in load_suite().operators
        if sum(shape.call_count or 0 for shape in op.shapes) < 100 * (op.num_profiles or 0)
    ]
    assert len(few) == 24
