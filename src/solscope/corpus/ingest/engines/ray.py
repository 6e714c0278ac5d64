"""A Ray cluster: an existing one by its address, or one on this machine for the length of the run.

The local one listens on the loopback interface only, has no dashboard, reports no usage, and is
shut down at the end. Ray itself starts a task again whose worker died.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from solscope.corpus.ingest.engines.base import AHEAD, ATTEMPTS, died
from solscope.corpus.ingest.task import Outcome, Task, process
from solscope.errors import InputError, MissingToolError

STORE_BYTES = 256 << 20
"""Object store of a local cluster: a few results at a time."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without it, Ray puts the address of the network interface in place of 127.0.0.1."""
CONNECT_S = 1.0
"""Seconds until a cluster that does not answer is reported; Ray itself waits for minutes."""
STARTS = 3
"""How often a cluster on this machine is started before it is given up."""
_HOST_AND_PORT = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")


class RayEngine:
    """Tasks on a Ray cluster."""

    name = "ray"
    summary = "a Ray cluster, or one started on this machine for the run"

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self.workers = workers
        self.address = address

    def run(self, tasks: Iterable[Task], stored_ids: frozenset[str]) -> Iterator[Outcome]:
        """Outcomes as they finish."""
        with _cluster(self.address, self.workers) as ray:
            cores = int(ray.cluster_resources().get("CPU", 1))
            ahead = AHEAD * min(self.workers or cores, cores)
            remote = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(process)
            shared = ray.put(stored_ids)
            running: dict[Any, Task] = {}
            rest = iter(tasks)
            while True:
                for task in itertools.islice(rest, ahead - len(running)):
                    running[remote.remote(task, shared)] = task
                if not running:
                    return
                done, _ = ray.wait(list(running), num_returns=1)
                for reference in done:
                    yield _outcome(ray, reference, running.pop(reference))


def _outcome(ray: Any, reference: Any, task: Task) -> Outcome:
    from ray.exceptions import RayError

    try:
        outcome: Outcome = ray.get(reference)
    except RayError as error:
        if isinstance(error, (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)):
            return died(task)
        text = (str(error).splitlines() or [type(error).__name__])[-1]
        return Outcome(task.item.path, reason=f"{task.item.path}: Ray could not run it ({text})")
    return outcome


@contextmanager
def _cluster(address: str | None, workers: int | None) -> Iterator[Any]:
    """A connection to the cluster, closed at the end."""
    for name, value in (QUIET if address else QUIET | LOOPBACK).items():
        os.environ.setdefault(name, value)
    if address is not None:
        _check_listens(address)
    try:
        import ray
    except ImportError:
        raise MissingToolError(
            "--engine ray needs the package ray: pip install 'solscope[corpus,ray]'"
        ) from None
    logging.getLogger("ray").setLevel(logging.ERROR)
    common: dict[str, Any] = {
        "logging_level": "ERROR",
        "log_to_driver": False,
        "configure_logging": False,
    }
    environment = {"env_vars": {"POLARS_MAX_THREADS": "1", **_paths(address)}}
    where: dict[str, Any] = {"address": address}
    if address is None:
        where = {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
        }
    if address is not None and _HOST_AND_PORT.fullmatch(address):
        _check_token(ray, address)
    _start(ray, address, {**where, "runtime_env": environment, **common})
    try:
        # Ray prints what happens to workers; stdout is for results.
        with redirect_stdout(sys.stderr):
            yield ray
    finally:
        ray.shutdown()


def _start(ray: Any, address: str | None, options: dict[str, Any]) -> None:
    """Connect, or start a cluster here: again on a busy machine, which Ray gives 30 s only."""
    for attempt in range(STARTS if address is None else 1):
        try:
            ray.init(**options)
            return
        except Exception as error:  # noqa: BLE001 - Ray raises a plain Exception when it is late
            ray.shutdown()
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            if attempt == STARTS - 1 or isinstance(error, ValueError):
                break
    raise InputError(f"no Ray cluster {address or 'on this machine'}: {reason}")


def _check_listens(address: str) -> None:
    """Fail at once where nobody listens; Ray itself would try for minutes."""
    place = _HOST_AND_PORT.fullmatch(address)
    if place is None:
        return  # `auto`, or a scheme that Ray knows better.
    try:
        target = (place["host"].strip("[]"), int(place["port"]))
        socket.create_connection(target, CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster at {address}: {error}") from None


def _check_token(ray: Any, address: str) -> None:
    """Fail at once where the cluster wants another token; Ray itself would try for minutes."""
    try:
        connect = import_module("ray._raylet").GcsClient
    except (ImportError, AttributeError):
        return  # A version of Ray that has it elsewhere: its own error comes late.
    try:
        with _no_stderr():
            connect(address=address)
    except ray.exceptions.AuthenticationError:
        raise InputError(
            f"the Ray cluster at {address} needs a token, and this machine has none or another: "
            "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or ~/.ray/auth_token"
        ) from None
    except ray.exceptions.RayError as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"no Ray cluster at {address}: {reason}") from None


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Without what libraries below Python print."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _paths(address: str | None) -> dict[str, str]:
    """Workers of a local cluster find modules where this process does."""
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": path} if address is None and path else {}
