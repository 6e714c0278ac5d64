from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import ExtractOptions, extract
from solscope.corpus.queries.change_points import LONGEST, SHORTEST, change_points
from solscope.corpus.queries.trend import trend, version_key
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import InputError, UsageError
from solscope.report.results.corpus import trend_parts
from tests.printing import printed
from tests.unit.corpus.traces import write_trace


def places(values: list[float]) -> list[int]:
    return [change.at for change in change_points(np.array(values))]


def noisy(levels: list[tuple[float, int]], noise: float, seed: int = 0) -> list[float]:
    draw = np.random.default_rng(seed)
    return [float(level + draw.normal(0, noise)) for level, count in levels for _ in range(count)]


def test_steps_of_a_made_series_are_found_where_they_are() -> None:
    assert places(noisy([(10, 40), (11, 30), (10, 30)], 0.2)) == [40, 70]


def test_a_drop_in_noise_free_values_is_found() -> None:
    assert places([5.0] * 10 + [4.0] * 10) == [10]


def test_a_change_of_spread_alone_is_a_change() -> None:
    draw = np.random.default_rng(3)
    values = [*draw.normal(10, 0.01, 60), *draw.normal(10, 2, 60)]
    found = places(values)
    assert len(found) == 1
    assert abs(found[0] - 60) <= 6


def test_noise_is_rarely_taken_for_a_change() -> None:
    wrong = sum(bool(places(noisy([(1.0, 30)], 0.3, seed))) for seed in range(200))
    assert wrong <= 10  # 2 % expected: 4 of 200


def test_short_and_constant_series_have_no_changes() -> None:
    assert places([]) == places([1.0]) == places([1.0] * 50) == []
    assert places([1.0, 2.0] * (SHORTEST - 1)) == []
    with pytest.raises(ValueError, match="more than"):
        change_points(np.zeros(LONGEST + 1))


def test_the_same_series_gives_the_same_changes() -> None:
    values = np.array(noisy([(10, 20), (12, 20)], 1))
    assert change_points(values) == change_points(values)


# --- Profiles


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Ten profiles; from the sixth on the product is a quarter slower, the rest stays."""
    folder = tmp_path_factory.mktemp("trend")
    made = create_corpus(folder / "store")
    extracts = []
    for at in range(10):
        path = write_trace(folder / f"{at}.json", gemm_us=(20 if at < 5 else 25) + at / 100, day=at)
        options = ExtractOptions(tags=(("version", f"0.{at + 5}.0"),))
        extracts.append(extract(str(path), options))
    made.append(extracts[::-1])
    return made


def test_a_slower_operator_is_a_regression(corpus: Corpus) -> None:
    found = trend(corpus, "dense_gemm")
    assert [round(point.value, 2) for point in found.points[:2]] == [20.0, 20.01]
    (change,) = found.changes
    assert (change.at, Path(change.file).name) == (5, "5.json")
    assert change.change_pct == pytest.approx(100 * (25.07 / 20.02 - 1))
    assert found.regressed
    assert not trend(corpus, "dense_gemm", min_change_pct=30).regressed
    assert not trend(corpus, "elementwise").changes
    assert "+25.2 %" in printed(trend_parts, found, top=3, width=100, color=False)


def test_versions_are_ordered_as_versions(corpus: Corpus) -> None:
    found = trend(corpus, "gemm", by="version")
    assert [point.label for point in found.points][:6] == [f"0.{n}.0" for n in range(5, 11)]
    assert found.changes[0].label == "0.10.0"


@pytest.mark.parametrize("metric", ["step", "share"])
def test_other_measures(corpus: Corpus, metric: str) -> None:
    found = trend(corpus, "dense_gemm", metric=metric)  # type: ignore[arg-type]
    first = {"step": 40.0, "share": 80.0}[metric]
    assert found.points[0].value == pytest.approx(first)
    assert found.regressed


def test_step_time(corpus: Corpus) -> None:
    found = trend(corpus, "step")
    assert (found.metric, found.phase) == ("step", "(unknown)")
    assert found.regressed


@pytest.mark.long
def test_a_slowdown_that_was_made_good_is_no_regression(tmp_path: Path) -> None:
    made = create_corpus(tmp_path / "store")
    times = [20] * 6 + [30] * 6 + [20] * 6
    paths = [
        write_trace(tmp_path / f"{at}.json", gemm_us=time + at / 100, day=at)
        for at, time in enumerate(times)
    ]
    add_profiles(made, paths, workers=1)
    found = trend(made, "dense_gemm")
    assert [change.at for change in found.changes] == [6, 12]
    assert not found.regressed


def test_wrong_questions_are_refused(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match=r"no operator or category 'nope'.*dense_gemm"):
        trend(corpus, "nope")
    with pytest.raises(InputError, match="no profile with gpu=B200"):
        trend(corpus, "step", where={"gpu": "B200"})
    with pytest.raises(UsageError, match="smallest change"):
        trend(corpus, "step", min_change_pct=-1)


def test_versions_in_order() -> None:
    ordered = ["0.9.2", "0.10.0.dev3", "0.10.0rc1", "0.10.0", "v0.10.0.post1", "0.10.1+cu128", "1"]
    mixed = ordered[::-1]
    assert sorted(mixed, key=version_key) == ordered
