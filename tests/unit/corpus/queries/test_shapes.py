from __future__ import annotations

import json
from pathlib import Path

import pytest

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.queries.export import suite_of, write_suite
from solscope.corpus.queries.importance import importance
from solscope.corpus.queries.shapes import axes_id, hot_shapes
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import InputError, UsageError
from solscope.operators import operator
from solscope.report.results.corpus import shapes_parts
from solscope.suite.files import load, validate
from tests.printing import printed
from tests.unit.corpus.traces import write_trace

TOKENS = {64: 40.0, 70: 30.0, 1024: 20.0, 4096: 10.0}
"""Tokens and time of the product in each of four profiles whose other kernels take 60 us less."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("shapes")
    made = create_corpus(folder / "store")
    paths = [
        write_trace(
            folder / f"{m}.json", m=m, gemm_us=time, add_us=1, mystery_us=99 - time, calls=1
        )
        for m, time in TOKENS.items()
    ]
    add_profiles(made, paths, workers=1)
    return made


def test_the_fewest_shapes_that_cover_the_time(corpus: Corpus) -> None:
    (op,) = hot_shapes(corpus, "dense_gemm", cover=0.9).operators
    assert [shape.axes["m"] for shape in op.shapes] == [64, 70, 1024]
    assert [shape.weight for shape in op.shapes] == pytest.approx([0.4, 0.3, 0.2])
    assert [shape.cumulative for shape in op.shapes] == pytest.approx([0.4, 0.7, 0.9])
    assert (op.distinct, op.known_pct) == (4, 100)
    assert op.importance_pct == pytest.approx(25)
    (op,) = hot_shapes(corpus, "dense_gemm", cover=1).operators
    assert op.cover == pytest.approx(1)


def test_nearby_token_counts_share_a_bucket(corpus: Corpus) -> None:
    (op,) = hot_shapes(corpus, "dense_gemm", cover=0.9, buckets=True).operators
    assert [(s.axes["m"], s.shapes, s.spans) for s in op.shapes] == [
        (64, 2, {"m": (64, 70)}),
        (1024, 1, {}),
    ]
    assert [shape.weight for shape in op.shapes] == pytest.approx([0.7, 0.2])


def test_a_shape_says_where_it_was_seen(corpus: Corpus) -> None:
    (op,) = hot_shapes(corpus, "dense_gemm").operators
    origin = op.shapes[0].origin
    assert (origin.profiles, origin.gpus) == (1, ["H200"])
    assert origin.kernels == ["nvjet_tst_128x8_64x12_2x1_v_bz_TNT"]
    assert origin.example in corpus.profiles()["id"].to_list()
    assert op.shapes[0].p50_us == pytest.approx(40, rel=0.008)


def test_all_operators_most_important_first(corpus: Corpus) -> None:
    found = hot_shapes(corpus).operators
    assert [op.operator for op in found] == ["dense_gemm", "elementwise"]
    text = printed(shapes_parts, hot_shapes(corpus, buckets=True), top=1, width=120, color=False)
    assert "(2 shapes, m=64..70)" in text
    assert "(2 more, see --top)" in text


def test_wrong_questions_are_refused(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match=r"no operator in this store 'dense_gem'.*did you mean"):
        hot_shapes(corpus, "dense_gem")
    with pytest.raises(UsageError, match="between 0 and 1"):
        hot_shapes(corpus, cover=0)


# --- The suite file


def test_a_suite_has_weights_that_sum_to_one_and_axes_that_have_a_cost(
    corpus: Corpus, tmp_path: Path
) -> None:
    path = write_suite(suite_of(corpus, "mine"), tmp_path / "suite.json")
    document = json.loads(path.read_text())
    assert document["schema"] == "solscope.suite/1"
    assert set(document) == {"schema", "name", "title", "provenance", "operators"}
    suite = load(path)
    assert validate(suite) == []
    rows = {row.key: row.importance_pct for row in importance(corpus).rows}
    for entry in suite.operators:
        assert sum(shape.weight for shape in entry.shapes) == pytest.approx(1)
        assert entry.importance == pytest.approx(rows[entry.operator] / 100)
        for shape in entry.shapes:
            assert operator(entry.operator).cost(shape.axes).bytes > 0
            assert shape.id == axes_id(shape.axes)
    assert (suite.operators[0].operator, suite.operators[0].dtype) == ("dense_gemm", "bf16")


def test_a_suite_is_not_overwritten(corpus: Corpus, tmp_path: Path) -> None:
    suite = suite_of(corpus, "mine")
    path = write_suite(suite, tmp_path / "suite.json")
    with pytest.raises(UsageError, match="replace it with --force"):
        write_suite(suite, path)
    assert write_suite(suite, path, force=True) == path
    assert [file.name for file in tmp_path.iterdir()] == ["suite.json"]


def test_a_suite_needs_shapes(tmp_path: Path) -> None:
    made = create_corpus(tmp_path / "store")
    data = Path(__file__).parents[3] / "data"
    add_profiles(made, [data / "nsys_decode_kern_sum.csv"], workers=1)
    with pytest.raises(InputError, match="no operator of these profiles has known shapes"):
        suite_of(made, "none")
