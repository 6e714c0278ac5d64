"""Each limit of the dashboard at its edge: the last value that passes, the first that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from solscope.errors import UsageError
from solscope.web.answer_cache import DiskCache, MemoryCache
from solscope.web.api import ENDPOINTS
from solscope.web.handlers.corpus import _count, _page
from solscope.web.upload import MAX_NAME_LENGTH, safe_name


@pytest.mark.parametrize(("values", "first_stays"), [(3, True), (4, False)])
def test_values_in_memory(values: int, first_stays: bool) -> None:
    cache: MemoryCache[int] = MemoryCache(3)
    for key in range(values):
        cache.get(key, lambda key=key: key)  # type: ignore[misc]
    assert (cache.peek(0) is not None) == first_stays


@pytest.mark.parametrize(("answers", "files"), [(3, 3), (4, 3)])
def test_answers_on_disk(tmp_path: Path, answers: int, files: int) -> None:
    for key in range(answers):
        DiskCache(tmp_path, 3).get(key, lambda: b"answer")
    assert len(list(tmp_path.iterdir())) == files


@pytest.mark.parametrize("length", [MAX_NAME_LENGTH, MAX_NAME_LENGTH + 1])
def test_the_name_of_an_upload_keeps_its_end(length: int) -> None:
    name = "a" * (length - len(".json")) + ".json"
    assert safe_name(name) == name[-MAX_NAME_LENGTH:]


@pytest.mark.parametrize(("text", "rows"), [("1", 1), ("99999999", 99_999_999), ("", 7)])
def test_numbers_of_rows(text: str, rows: int) -> None:
    assert _count({"most": text}, "most", 7) == rows


@pytest.mark.parametrize("text", ["0", "100000000", "-1", "1.5", "\u0663"])
def test_numbers_of_rows_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="most must be a number of rows"):
        _count({"most": text}, "most", 7)


@pytest.mark.parametrize(("most", "is_allowed"), [("10000", True), ("10001", False)])
def test_the_length_of_a_page_is_limited(most: str, is_allowed: bool) -> None:
    """However many profiles a store has, an answer about it is of limited size."""
    if is_allowed:
        assert _page({"start": "3", "most": most}, 7) == (3, 10_000)
    else:
        with pytest.raises(UsageError, match="most must be a number of rows from 1 to 10,000"):
            _page({"most": most}, 7)


def test_every_list_of_the_store_has_pages() -> None:
    """Trends have at most 300 points, and shapes are few by their definition."""
    of_store = {endpoint.path: endpoint.parameters for endpoint in ENDPOINTS if endpoint.of_store}
    unpaged = {path for path, query in of_store.items() if not {"start", "most"} <= set(query)}
    assert unpaged == {"/api/corpus/shapes/{operator}", "/api/corpus/trend"}
