"""What goes wrong around the dashboard costs one answer, not the dashboard."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from solscope.errors import InputError, UsageError
from solscope.web.app import Uploads, create_app
from solscope.web.library import Library
from solscope.web.quota import Quota
from solscope.web.upload import Body, UploadLimits, take_upload

DEMO = "demo:vllm-b200"
RESULTS = Path(__file__).parents[2] / "data" / "bench_results.jsonl"
EMPTY_TRACE = b'{"traceEvents": []}'


def test_results_that_become_unreadable_leave_the_rest(tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    shutil.copy(RESULTS, results)
    client = TestClient(create_app(Library([DEMO, str(results)])), base_url="http://localhost")
    assert client.get("/api/overview").json()["solutions"]
    results.write_text("no results any more\n")
    answer = client.get("/api/overview")
    assert answer.status_code == 200
    overview = answer.json()
    assert (len(overview["profiles"]), overview["solutions"]) == (1, [])
    [(path, why)] = overview["skipped"]
    assert path == str(results)
    assert "line 1 is not a result" in why
    assert "line 1 is not a result" in client.get("/api/bench").json()["error"]


def test_of_several_results_those_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    good, bad, empty = (tmp_path / name for name in ("r.jsonl", "r.jsonl.jsonl", "empty.jsonl"))
    shutil.copy(RESULTS, good)
    bad.write_text("no results\n")
    empty.touch()
    library = Library([DEMO, *map(str, (good, bad, empty))])
    client = TestClient(create_app(library), base_url="http://localhost")
    skipped = client.get("/api/overview").json()["skipped"]
    assert [path for path, _ in skipped] == [str(bad), str(empty)]
    assert [why.removeprefix(path)[:20] for path, why in skipped] == [
        ": line 1 is not a re",
        ": no results",
    ]


def test_a_folder_may_hold_results_alone_or_beside_profiles(tmp_path: Path) -> None:
    shutil.copy(RESULTS, tmp_path / "r.jsonl")
    (tmp_path / "dataset.jsonl").write_text('{"prompt": "none of ours"}\n')
    library = Library([str(tmp_path)])
    assert (library.result_files, library.entries) == ([str(tmp_path / "r.jsonl")], [])
    assert library.solutions()
    shutil.copy(RESULTS, tmp_path / "more.jsonl")
    (tmp_path / "trace.json").write_bytes(EMPTY_TRACE)
    library.look_again()
    assert [Path(path).name for path in library.result_files] == ["more.jsonl", "r.jsonl"]
    assert [entry.label for entry in library.entries] == ["trace"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no profile in this folder"):
        Library([str(tmp_path / "empty")])


def test_an_upload_without_a_place_is_one_line(tmp_path: Path) -> None:
    app = create_app(Library([DEMO]), uploads=Uploads(tmp_path / "gone", 1000))
    client = TestClient(app, base_url="http://localhost", headers={"x-solscope": "1"})
    answer = client.post("/api/upload?name=a.json", content=EMPTY_TRACE)
    assert answer.status_code == 507
    assert "cannot be kept" in answer.json()["error"]


def test_of_two_uploads_of_one_name_the_first_stays(tmp_path: Path) -> None:
    library = Library([DEMO])
    limits = UploadLimits(1000, Quota(tmp_path, sys.maxsize))

    async def both() -> list[object]:
        begun, tried = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            begun.set()
            await tried.wait()
            yield EMPTY_TRACE

        async def quick() -> AsyncIterator[bytes]:
            yield EMPTY_TRACE + b" "

        first = asyncio.ensure_future(
            take_upload(library, tmp_path, "a.json", Body(slow()), limits)
        )
        await begun.wait()
        second = asyncio.ensure_future(
            take_upload(library, tmp_path, "a.json", Body(quick()), limits)
        )
        await asyncio.wait([second])
        tried.set()
        return list(await asyncio.gather(first, second, return_exceptions=True))

    first, second = asyncio.run(both())
    assert isinstance(second, UsageError)
    assert not isinstance(first, BaseException)
    assert (tmp_path / "a.json").read_bytes() == EMPTY_TRACE
