from __future__ import annotations

import pytest

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.sql import query
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import InputError, UsageError
from tests.unit.corpus.traces import write_trace


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("query")
    made = create_corpus(folder / "store")
    hostile = ExtractOptions(tags=(("note", "'; DROP TABLE profiles; --\x1b[2J"),))
    add_profiles(made, [write_trace(folder / "a.json")], hostile, workers=1)
    return made


def test_sql_over_all_tables(corpus: Corpus) -> None:
    rows = query(
        corpus,
        "SELECT p.gpu, t.operator, SUM(t.time_ns) AS ns FROM times t "
        "JOIN profiles p ON t.entry = p.entry GROUP BY p.gpu, t.operator ORDER BY ns DESC",
    )
    assert rows.rows() == [
        ("H200", "dense_gemm", 40_000),
        ("H200", None, 6_000),
        ("H200", "elementwise", 4_000),
    ]
    assert query(corpus, "SELECT COUNT(*) AS n FROM steps").item() == 1
    assert query(corpus, "WITH a AS (SELECT 1 AS x) SELECT x FROM a;").item() == 1


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE profiles",
        "DELETE FROM profiles",
        "TRUNCATE TABLE times",
        "CREATE TABLE x AS SELECT 1",
        "SELECT 1; DROP TABLE times",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet /* x */ ('/etc/passwd')",
        "SELECT * FROM \"read_csv\"('/etc/passwd')",
        "SELECT * FROM \"read_csv\" /**/ \n ('/etc/passwd')",
        "WITH a AS (SELECT * FROM scan_ipc('x')) SELECT * FROM a",
        "SELECT $$'$$ AS a, * FROM read_csv('/etc/passwd') -- '",
        "SELECT * /* /* */ ' */ FROM read_csv('/etc/passwd') -- '",
        "-- SELECT\nDROP TABLE profiles",
        "",
    ],
)
def test_a_query_only_reads_the_store(corpus: Corpus, sql: str) -> None:
    with pytest.raises(UsageError):
        query(corpus, sql)
    assert verify(corpus).ok


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM nothing", "SELECT nope FROM times", "SELECT (", "SELECT * FROM '/etc/x'"]
)
def test_a_wrong_query_is_one_clear_error(corpus: Corpus, sql: str) -> None:
    with pytest.raises(InputError, match="the query failed: "):
        query(corpus, sql)


def test_semicolons_and_keywords_in_texts_are_fine(corpus: Corpus) -> None:
    found = query(corpus, "SELECT 'a;b DELETE' AS x FROM profiles WHERE tags LIKE '%DROP%'")
    assert found.rows() == [("a;b DELETE",)]
