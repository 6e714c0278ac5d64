"""The cache as a user meets it: options, variables, `solscope cache`, and what stays out of it."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

import solscope
from solscope.attribution.opening import open_attributed
from solscope.cache import background, report
from solscope.cache.content import FINE_NS
from solscope.cache.listing import ANSWERS, ENTRIES, owned, stored
from solscope.cache.settings import FOLDER, TAG
from solscope.cli import run
from solscope.readers.opening import Opening

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOLSCOPE_NO_CACHE", "")
    monkeypatch.setenv("SOLSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SOLSCOPE_CACHE_MIN_BYTES", "0")
    return tmp_path / "cache" / FOLDER


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Profiles that were read, not taken from the cache."""
    found: list[str] = []
    read = Opening._read

    def noted(self: Opening) -> solscope.Profile:
        found.append(self._asked)
        return read(self)

    monkeypatch.setattr(Opening, "_read", noted)
    return found


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return settled(Path(shutil.copy(DATA / "kineto_b200.json.gz", tmp_path / "trace.json.gz")))


def settled(path: Path) -> Path:
    """Wait until a change of the file would show: one that was changed just now is not cached."""
    while time.time_ns() - path.stat().st_ctime_ns < 2 * FINE_NS:
        time.sleep(0.01)
    return path


def look(*arguments: str | Path) -> None:
    assert run([str(argument) for argument in arguments]) == 0
    background.wait()


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_second_look_reads_nothing(cache: Path, trace: Path, readings: list[str]) -> None:
    look("show", trace)
    assert readings == [str(trace)]
    for command in ("show", "kernels", "layers", "operators", "hotspots"):
        look(command, trace)
    assert readings == [str(trace)]


def test_other_rules_attribute_again_but_do_not_read_again(
    cache: Path, trace: Path, readings: list[str], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nid = "my.all"\ncategory = "copy"\npattern = "kernel"\n')
    with_rules = open_attributed(trace, rules=solscope.load_rules([rules]))
    background.wait()
    plain = open_attributed(trace)
    background.wait()
    assert readings == [str(trace)]
    again = open_attributed(trace, rules=solscope.load_rules([rules]))
    assert again.activities.equals(with_rules.activities)
    assert not again.activities["category"].equals(plain.activities["category"])


def test_no_cache_reads_and_writes_nothing(cache: Path, trace: Path, readings: list[str]) -> None:
    look("show", "--no-cache", trace)
    assert not cache.exists()
    look("show", trace)
    look("show", trace, "--no-cache")
    assert len(readings) == 3


def test_options_hold_for_the_companion(
    cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from solscope.readers import source

    companion = settled(Path(shutil.copy(trace, trace.with_name("eager.json.gz"))))
    look("kernels", "--no-cache", trace, "--with", companion)
    assert not cache.exists()
    monkeypatch.setattr(source, "FREE_BYTES", 1000)
    plain = trace.with_name("plain.json")
    plain.write_bytes(gzip.decompress(trace.read_bytes()))
    assert run(["kernels", str(plain), "--with", str(trace), "--max-expansion", "2"]) == 2
    assert f"{trace}: " in capsys.readouterr().err


def test_the_variable_turns_it_off(
    cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLSCOPE_NO_CACHE", "1")
    look("show", trace)
    assert not cache.exists()


def test_small_files_are_not_cached(
    cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLSCOPE_CACHE_MIN_BYTES", str(trace.stat().st_size + 1))
    look("show", trace)
    assert stored(cache) == []


def test_a_new_name_that_tells_the_stage_is_read_again(
    cache: Path, trace: Path, readings: list[str]
) -> None:
    look("show", trace)
    moved = settled(trace.rename(trace.with_name("run-DECODE.trace.json.gz")))
    assert solscope.open(moved).metadata.stage == "decode"
    assert readings == [str(trace), str(moved)]


def test_a_file_elsewhere_with_the_same_name_is_not_read_again(
    cache: Path, trace: Path, readings: list[str], tmp_path: Path
) -> None:
    look("show", trace)
    (tmp_path / "other").mkdir()
    moved = settled(trace.rename(tmp_path / "other" / trace.name))
    assert solscope.open(moved).path == str(moved)
    assert readings == [str(trace)]


def test_metrics_that_appear_later_are_attached(cache: Path, trace: Path) -> None:
    look("show", trace)
    assert solscope.open(trace).metrics is None
    shutil.copy(DATA / "run.metrics.csv", trace.with_name("trace.metrics.csv"))
    profile = open_attributed(trace).profile
    assert profile.metrics is not None
    assert {warning.code for warning in profile.warnings} >= {"metrics_outside"}


def test_another_companion_is_another_answer(cache: Path, trace: Path) -> None:
    alone = open_attributed(trace)
    background.wait()
    twin = open_attributed(trace, companion="demo:vllm-b200")
    background.wait()
    again = open_attributed(trace, companion="demo:vllm-b200")
    assert again.activities.equals(twin.activities)
    assert open_attributed(trace).activities.equals(alone.activities)
    assert len(stored(cache)) == 4  # two profiles; one of them attributed twice


def test_a_limit_that_was_raised_does_not_hold_for_others(
    cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solscope.readers import source

    monkeypatch.setattr(source, "FREE_BYTES", 1000)
    look("show", trace, "--max-expansion", "1000")
    assert run(["show", str(trace), "--max-expansion", "2"]) == 2


def test_what_depends_on_other_files_is_not_cached(cache: Path) -> None:
    open_attributed(DATA / "run.metrics.csv")
    open_attributed(next((DATA / "behavior").glob("*.csv")))
    background.wait()
    assert stored(cache) == []


def test_a_corpus_does_not_fill_the_cache(cache: Path, trace: Path) -> None:
    from solscope.corpus.ingest.extract import extract

    extract(str(trace))
    background.wait()
    assert stored(cache) == []


def test_a_file_replaced_before_it_is_read_does_not_poison_its_entry(
    cache: Path, trace: Path, readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest is known, its entry was evicted, and another file takes the place of the first."""
    content = trace.read_bytes()
    events = json.loads(gzip.decompress(content))
    events["traceEvents"] = events["traceEvents"][: len(events["traceEvents"]) // 2]
    other = trace.with_name("other.json.gz")
    other.write_bytes(gzip.compress(json.dumps(events).encode()))
    first = open_attributed(trace).activities
    background.wait()
    for entry in stored(cache):
        shutil.rmtree(entry.path)
    read = Opening._read

    def replaced(self: Opening) -> solscope.Profile:
        assert self._known_digest is not None
        other.replace(trace)
        return read(self)

    with monkeypatch.context() as patched:
        patched.setattr(Opening, "_read", replaced)
        second = open_attributed(trace).activities
    background.wait()
    assert second.height != first.height
    assert stored(cache) == []
    trace.write_bytes(content)
    settled(trace)
    assert open_attributed(trace).activities.equals(first)


def test_info_and_clear(cache: Path, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "cache", "info")["entries"] == 0
    look("show", trace)
    (cache / "mine.txt").write_text("not of the cache")
    assert (cache / TAG).read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    info = printed(capsys, "cache", "info")
    assert (info["on"], info["entries"], info["folder"]) == (True, 2, str(cache))
    assert info["bytes"] == sum(
        file.stat().st_size for file in (cache / ENTRIES).rglob("*") if file.is_file()
    )
    assert printed(capsys, "cache", "clear")["bytes"] == info["bytes"]
    assert printed(capsys, "cache", "info")["entries"] == 0
    assert sorted(path.name for path in cache.iterdir()) == [TAG, "mine.txt"]
    (cache / "mine.txt").unlink()
    look("show", trace)
    look("cache", "clear")
    assert list(cache.parent.iterdir()) == []


def test_files_of_the_user_in_the_folder_survive(
    cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("profiles/run1/a.json", "work/old/b", "files/thesis.txt", "answers/42.md")
    theirs = [folder / name for folder in (cache.parent, cache) for name in names]
    theirs.append(cache.parent / "profiles" / ("0" * 40) / "manifest")
    for file in theirs:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.name)
        os.utime(file, (1, 1))
        os.utime(file.parent, (1, 1))
    look("show", trace)
    assert len(stored(cache)) == 2
    monkeypatch.setenv("SOLSCOPE_CACHE_MAX_BYTES", str(stored(cache)[0].bytes + 1))
    look("show", Path(shutil.copy(trace, trace.with_name("other.json.gz"))))
    look("cache", "clear")
    assert stored(cache) == []
    assert [file.read_text() for file in theirs] == [file.name for file in theirs]


def test_a_cache_that_others_can_write_to_is_not_cleared(
    cache: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look("show", trace)
    cache.chmod(0o777)
    assert run(["cache", "clear"]) == 2
    assert "the cache is not cleared: " in capsys.readouterr().err
    assert len(stored(cache)) == 2


def test_info_and_clear_for_people(
    cache: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look("show", trace)
    capsys.readouterr()
    look("cache", "info")
    text = capsys.readouterr().out
    assert "state      on" in text
    assert "2 entries" in text
    look("cache", "clear")
    assert capsys.readouterr().out.startswith("removed 2 entries and 0 answers, ")
    look("cache", "clear")
    assert capsys.readouterr().out == "the cache was empty\n"


def test_a_variable_that_is_no_number_is_bad_usage(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOLSCOPE_CACHE_MAX_BYTES", "4G")
    assert run(["show", "demo:vllm-mi300x-graph"]) == 2
    assert "SOLSCOPE_CACHE_MAX_BYTES=4G: give a number of bytes" in capsys.readouterr().err


def test_a_folder_that_cannot_be_used_is_no_error(
    cache: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")
    look("show", trace)
    assert capsys.readouterr().err == ""
    info = printed(capsys, "cache", "info")
    assert (info["on"], info["reason"]) == (False, f"{cache} is not a folder")
    assert "is not a folder" in printed(capsys, "doctor")["cache"]["detail"]


def test_a_cache_that_another_process_clears_can_be_cleared(
    cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is always a step ahead: it deletes the folder that was made last."""
    look("show", trace)
    made = tempfile.mkdtemp
    others = [shutil.rmtree] * 3 + [lambda folder: shutil.rmtree(Path(folder).parent)] * 3

    def swept(**where: Any) -> str:
        folder: str = made(**where)
        if others:
            others.pop()(folder)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    look("cache", "clear")
    assert not others
    assert not cache.exists()


def test_an_answer_that_is_evicted_while_they_are_counted_is_left_out(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (cache / ANSWERS).mkdir(mode=0o700, parents=True)
    (cache / ANSWERS / ("0" * 64)).write_bytes(b"made")
    gone = cache / ANSWERS / ("1" * 64)
    monkeypatch.setattr(report, "owned", lambda folder, part: [*owned(folder, part), gone])
    info = printed(capsys, "cache", "info")
    assert (info["answers"], info["answer_bytes"]) == (1, 4)


def test_a_folder_whose_name_is_not_text_is_used_and_printed(
    cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = cache.parent / os.fsdecode(b"caf\xe9")
    monkeypatch.setenv("SOLSCOPE_CACHE_DIR", str(odd))
    look("show", trace)
    assert len(stored(odd / FOLDER)) == 2
    shown = f"{cache.parent}/caf\ufffd/{FOLDER}"
    assert printed(capsys, "cache", "info")["folder"] == shown
    look("cache", "info")
    look("doctor")
    (odd / FOLDER).chmod(0o777)
    assert printed(capsys, "cache", "info")["reason"].startswith(shown)
    assert run(["cache", "clear"]) == 2
    assert shown in capsys.readouterr().err


@pytest.mark.parametrize("inner", [True, False])
def test_a_folder_that_others_can_write_to_is_not_used(
    cache: Path, trace: Path, inner: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = cache if inner else cache.parent
    folder.mkdir(parents=True)
    folder.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    look("show", trace)
    assert list(folder.iterdir()) == []
    assert "can be written by other users" in printed(capsys, "cache", "info")["reason"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can chown")
def test_a_folder_of_another_user_is_not_used(cache: Path, trace: Path) -> None:
    cache.mkdir(mode=0o700, parents=True)
    os.chown(cache, 12345, 12345)
    look("show", trace)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"SOLSCOPE_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/solscope"),
        ({"HOME": "/c"}, None),
        ({"SOLSCOPE_CACHE_DIR": "~/d", "HOME": "/c"}, "/c/d"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/c"}, None),
    ],
)
def test_the_folder_is_where_caches_of_the_user_are(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str | None
) -> None:
    import sys

    from solscope.cache.settings import cache_folder

    for name in ("SOLSCOPE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    home = "/c/Library/Caches/solscope" if sys.platform == "darwin" else "/c/.cache/solscope"
    assert cache_folder() == Path(folder or home) / FOLDER


def test_the_home_of_an_unknown_user_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SOLSCOPE_NO_CACHE", raising=False)
    monkeypatch.setenv("SOLSCOPE_CACHE_DIR", "~nobody-of-this-name/cache")
    assert run(["cache", "info"]) == 0
    assert "a user who is not known here" in capsys.readouterr().out


def test_a_cached_profile_is_loaded_on_a_thread(
    cache: Path, trace: Path, readings: list[str]
) -> None:
    first = solscope.open(trace)
    background.wait()
    with solscope.readers.opening(trace, None) as main:
        main.start_loading()
        assert main.profile().events.equals(first.events)
    assert readings == [str(trace)]


@pytest.mark.parametrize("damage", [b"", b"not Parquet"])
def test_a_damaged_entry_that_is_loaded_on_a_thread_is_a_miss(
    cache: Path, trace: Path, readings: list[str], damage: bytes
) -> None:
    first = solscope.open(trace)
    background.wait()
    for file in (cache / ENTRIES).rglob("events.parquet"):
        file.write_bytes(damage)
    with solscope.readers.opening(trace, None) as main:
        main.start_loading()
        assert main.profile().events.equals(first.events)
    assert readings == [str(trace)] * 2


def test_nothing_is_loaded_of_a_profile_that_was_never_read(cache: Path, trace: Path) -> None:
    with solscope.readers.opening(trace, None) as main:
        main.start_loading()
        assert main._loading is None
