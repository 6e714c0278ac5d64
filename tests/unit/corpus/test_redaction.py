"""Private text stays outside a store that does not want it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from solscope.cli import run
from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import ExtractOptions, extract
from solscope.corpus.maintenance.exchange import export_profiles, import_profiles
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.store import create_corpus, open_corpus
from solscope.errors import UsageError


def trace(folder: Path) -> Path:
    home = folder / "home" / "zoltan"
    home.mkdir(parents=True)
    path = home / "zoltan-run.json"
    place = {"device": 0, "stream": 7}

    def kernel(name: str, start: int) -> dict[str, Any]:
        return {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": 5, "args": place}

    names = ("gemm</home/zoltan/k.cu>", "load hf_abcdefghijklmnop", "k")
    events = [kernel(name, 10 * at) for at, name in enumerate(names)]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def everything(store: Path) -> str:
    corpus = open_corpus(store)
    tables = ("profiles", "times", "steps", "events")
    rows = [corpus.table(name).collect().rows() for name in tables]
    logs = [path.read_text() for path in store.rglob("*.json")]
    return repr(rows) + "".join(logs)


@pytest.mark.parametrize("by", ["option", "policy"])
def test_nothing_private_is_stored(tmp_path: Path, by: str) -> None:
    store = tmp_path / "store"
    create_corpus(store, redact=by == "policy")
    path = trace(tmp_path)
    words = ["corpus", "add", str(store), str(path), "--keep-events", "--tag", "by=zoltan"]
    words += ["--workers", "1", "--tag", "model=/models/zoltan/llama-7b"]
    assert run([*words, *(["--redact"] if by == "option" else [])]) == 0
    said = everything(store)
    assert not [word for word in ("zoltan", "hf_abc", ".cu") if word in said]
    (row,) = open_corpus(store).profiles().to_dicts()
    assert row["model"] == "llama-7b"
    assert not verify(open_corpus(store)).problems


def test_times_and_categories_are_those_of_the_original(tmp_path: Path) -> None:
    path = str(trace(tmp_path))
    plain, redacted = extract(path), extract(path, ExtractOptions(redact=True))
    assert plain.times["time_ns"].sum() == redacted.times["time_ns"].sum()
    assert plain.times["category"].to_list() == redacted.times["category"].to_list()
    assert plain.profile["id"] == redacted.profile["id"]


def test_without_it_a_store_keeps_what_it_is_given(tmp_path: Path) -> None:
    corpus = create_corpus(tmp_path / "store")
    assert not corpus.redacts
    add_profiles(corpus, [trace(tmp_path)], workers=1)
    assert "zoltan" in everything(tmp_path / "store")


def test_a_policy_is_not_added_later(tmp_path: Path) -> None:
    create_corpus(tmp_path / "store")
    with pytest.raises(UsageError, match="without --redact"):
        create_corpus(tmp_path / "store", redact=True)


def test_an_export_of_a_store_without_the_policy_is_refused(tmp_path: Path) -> None:
    plain, strict = create_corpus(tmp_path / "a"), create_corpus(tmp_path / "b", redact=True)
    add_profiles(plain, [trace(tmp_path)], workers=1)
    export_profiles(plain, plain.profiles(), tmp_path / "out")
    with pytest.raises(UsageError, match="does not redact"):
        import_profiles(strict, tmp_path / "out")
    export_profiles(strict, strict.profiles(), tmp_path / "strict")
    assert import_profiles(plain, tmp_path / "strict").added == 0
