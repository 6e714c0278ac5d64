from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.queries.importance import Importance, ImportanceBy, importance
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import InputError, UsageError
from solscope.report.results.corpus import closing, importance_parts
from tests.printing import printed
from tests.unit.corpus.traces import write_trace


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Profile a: 20 + 2 + 3 us twice; profile b: 70 + 10 + 20 us twice."""
    folder = tmp_path_factory.mktemp("importance")
    made = create_corpus(folder / "store")
    a = write_trace(folder / "a.json")
    b = write_trace(folder / "b.json", gemm_us=70, add_us=10, mystery_us=20, m=128)
    for path, model, traffic in ((a, "A", "1"), (b, "B", "3")):
        tags = (("model", model), ("traffic", traffic))
        add_profiles(made, [path], ExtractOptions(tags=tags), workers=1)
    return made


def shares(result: Importance) -> dict[str, float]:
    return {row.key: row.importance_pct for row in result.rows}


def test_every_profile_counts_the_same(corpus: Corpus) -> None:
    result = importance(corpus)
    assert shares(result) == pytest.approx(
        {
            "dense_gemm": (80 + 70) / 2,
            "elementwise": (8 + 10) / 2,
            "(unmapped)": (12 + 20) / 2,
        }
    )
    assert [row.key for row in result.rows] == ["dense_gemm", "elementwise", "(unmapped)"]
    assert result.profiles == 2
    assert result.total_gpu_ms == pytest.approx(0.25)
    assert "every profile counts the same" in result.definition


def test_profiles_count_by_gpu_time(corpus: Corpus) -> None:
    found = shares(importance(corpus, weight="gpu-time"))
    assert found == pytest.approx({"dense_gemm": 72, "elementwise": 9.6, "(unmapped)": 18.4})


def test_profiles_count_by_a_tag(corpus: Corpus) -> None:
    found = shares(importance(corpus, weight="tag:traffic"))
    assert found["dense_gemm"] == pytest.approx((80 + 3 * 70) / 4)


def test_a_row_tells_calls_times_bound_and_what_would_come_back(corpus: Corpus) -> None:
    row = importance(corpus, where={"model": "A"}).rows[0]
    assert (row.profiles, row.calls, row.time_ms) == (1, 2, 0.04)
    assert row.p50_us == row.p90_us == pytest.approx(20, rel=0.008)
    assert row.bound_p50_us is not None
    assert row.s_pct == pytest.approx(100 * row.bound_p50_us / 20, rel=1e-3)
    assert row.mean_us is not None
    assert row.bound_mean_us is not None
    assert row.s_pct == pytest.approx(100 * row.bound_mean_us / row.mean_us)
    assert row.bound_cover_pct == 100
    assert row.recoverable_pct == pytest.approx(80 * (1 - row.bound_p50_us / 0.8 / 20), rel=1e-3)
    assert row.ci95_pct is None, "one profile tells no spread"
    unmapped = importance(corpus).rows[-1]
    assert (unmapped.s_pct, unmapped.recoverable_pct, unmapped.bound_p50_us) == (None, None, None)


def test_means_of_other_calls_than_those_with_a_bound_are_told_apart(corpus: Corpus) -> None:
    """Else a bound stands beside a shorter mean, and S of a few calls looks like that of all."""
    whole = importance(corpus)
    assert "that have a bound" not in printed(importance_parts, whole, top=9, width=300)
    first, *others = whole.rows
    some = msgspec.structs.replace(first, bound_cover_pct=70.25)
    text = printed(
        importance_parts, msgspec.structs.replace(whole, rows=[some, *others]), top=9, width=300
    )
    said = "bound µs and S are of the calls that have a bound (70.2 % of the time of dense_gemm)"
    assert f"{said}, mean µs is of all calls" in text


def test_calls_beyond_their_bound_are_a_warning(corpus: Corpus, tmp_path: Path) -> None:
    assert importance(corpus).warnings == []
    made = create_corpus(tmp_path / "store")
    add_profiles(made, [write_trace(tmp_path / "a.json", m=1 << 20)], workers=1)
    result = importance(made)
    (text,) = result.warnings
    assert text.startswith("S is above 100 % in 2 of 3 rows (elementwise: ")
    assert text in printed(importance_parts, result, top=9, width=300, color=False)


def test_frequency_times_mean_share_is_importance(corpus: Corpus) -> None:
    for row in importance(corpus, "shape").rows:
        assert row.frequency_pct * row.share_pct / 100 == pytest.approx(row.importance_pct)
    by_shape = importance(corpus, "shape").rows[0]
    assert by_shape.axes == {"dtype": "bf16", "k": 4096, "m": 64, "n": 4096}
    assert (by_shape.operator, by_shape.profiles, by_shape.frequency_pct) == ("dense_gemm", 1, 50)


@pytest.mark.parametrize("by", ["operator", "shape", "category", "role", "kernel"])
def test_shares_add_up(corpus: Corpus, by: ImportanceBy) -> None:
    result = importance(corpus, by, ["model", "phase"])
    assert sum(shares(result).values()) == pytest.approx(100, abs=1e-9)
    assert [group.group["model"] for group in result.groups] == ["B", "A"]
    for group in result.groups:
        assert sum(row.importance_pct for row in group.rows) == pytest.approx(100, abs=1e-9)


def test_groups_are_what_where_selects(corpus: Corpus) -> None:
    grouped = importance(corpus, group_by=["model"])
    for group in grouped.groups:
        assert group.rows == importance(corpus, where=group.group).rows
    assert importance(corpus, group_by=["traffic"]).groups[0].group == {"traffic": "3"}


def test_wrong_questions_are_refused(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match="no profile has a tag 'color'"):
        importance(corpus, group_by=["color"])
    with pytest.raises(InputError, match="no profile with model=C"):
        importance(corpus, where={"model": "C"})
    with pytest.raises(UsageError, match="uniform, gpu-time or tag:NAME"):
        importance(corpus, weight="heavy")
    with pytest.raises(InputError, match="2 of 2 profiles have no number as tag 'color'"):
        importance(corpus, weight="tag:color")
    with pytest.raises(UsageError, match="importance is by"):
        importance(corpus, by="color")  # type: ignore[arg-type]


def test_an_empty_store_has_no_importance(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no profile in this store"):
        importance(create_corpus(tmp_path / "empty"))


# --- Print


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=40))
def test_printed_shares_add_up(parts: list[float]) -> None:
    printed = closing([100 * part / sum(parts) for part in parts])
    assert sum(round(100 * float(text.removesuffix(" %"))) for text in printed) == 10_000


def test_the_table_closes_whatever_is_left_out(corpus: Corpus) -> None:
    text = printed(importance_parts, importance(corpus), top=1, width=100, color=False)
    assert "75.00 %" in text
    assert "(1 more)" in text
    assert "16.00 %" in text
    assert text.index("(1 more)") < text.index("(unmapped)") < text.index("100.00 %")
