"""A Ray cluster of several nodes: the same bytes as on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.engines.ray import LOOPBACK, QUIET
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.schema import schema
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import InputError
from tests.unit.corpus.traces import write_trace

pytestmark = pytest.mark.long
PROFILES = 6
NODES = 3


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Nodes with one core each."""
    pytest.importorskip("ray")
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 128 << 20, "include_dashboard": False}
    made: Any = Cluster(initialize_head=True, head_node_args=node)
    for _ in range(NODES - 1):
        made.add_node(num_cpus=1, object_store_memory=128 << 20)
    made.wait_for_nodes(timeout=120)
    yield made
    made.shutdown()


def contents(corpus: Corpus) -> list[object]:
    """All rows, in an order that does not depend on who added them first."""
    profiles = corpus.profiles()
    ids = profiles.select("entry", "id")
    changing = ("entry", "added_ns", "batch")
    found: list[object] = [profiles.drop(changing).to_dicts()]
    for name in ("times", "steps"):
        columns = [column for column in schema(name).names() if column != "entry"]
        rows = corpus.table(name).collect().join(ids, on="entry").select("id", *columns)
        found.append(sorted(map(str, rows.to_dicts())))
    return found


def test_several_nodes_give_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    paths = [str(write_trace(tmp_path / f"t{at}.json", gemm_us=20 + at)) for at in range(PROFILES)]
    here, there = create_corpus(tmp_path / "here"), create_corpus(tmp_path / "there")
    assert add_profiles(here, paths, workers=1).added == PROFILES
    result = add_profiles(there, paths, engine="ray", address=cluster.address)
    assert (result.added, result.failed) == (PROFILES, [])
    assert contents(there) == contents(here)
    assert verify(there).ok


@pytest.fixture
def guarded() -> Iterator[str]:
    """The address of a cluster that wants a token."""
    ray = pytest.importorskip("ray")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    options = [f"--port={port}", "--num-cpus=1", "--node-ip-address=127.0.0.1"]
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}
    process = subprocess.Popen(
        [*command, *options, "--include-dashboard=false", "--disable-usage-stats"],
        env={**os.environ, **QUIET, **LOOPBACK, **token},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        time.sleep(0.2)
    yield f"127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGTERM)
    process.wait()
    ray.shutdown()


def test_a_missing_token_is_named(guarded: str, tmp_path: Path) -> None:
    corpus = create_corpus(tmp_path / "store")
    path = str(write_trace(tmp_path / "t.json", gemm_us=20))
    with pytest.raises(InputError, match="needs a token"):
        add_profiles(corpus, [path], engine="ray", address=guarded)
