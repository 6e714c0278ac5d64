"""Answers the requests of the evaluator: a line of JSON each, and a line of JSON in reply."""

from __future__ import annotations

import json
import os
import resource
import warnings
from typing import Any

import msgspec

from .guard import guard
from .messages import MAX_ENTRIES, Answer, Asked, LoadSolution
from .outputs import failure
from .worker import Worker

HOST_WARNING = r".*\b(bf16|fp16) path needs (a|the) cpu"
"""As in `operators/host_warnings.py`, which a worker cannot import."""


def serve(config: dict[str, Any], source: int, target: int) -> None:
    """Answer requests until the pipe closes."""
    import torch

    # Bound here, before the solution is imported, so that it cannot replace them.
    read, write, loads, dumps = os.read, os.write, json.loads, json.dumps
    convert, plain = msgspec.convert, msgspec.to_builtins

    def folder_of(path: str) -> str:
        return os.path.join(os.path.realpath(os.path.dirname(path)), "")  # noqa: PTH118, PTH120

    def send(answer: Any) -> None:
        data = dumps(plain(answer)).encode() + b"\n"
        while data:
            data = data[write(target, data) :]

    if config["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (config["memory_bytes"], config["memory_bytes"]))
    torch.set_num_threads(config["threads"])
    torch.set_grad_enabled(False)
    warnings.filterwarnings("ignore", message=HOST_WARNING)
    violations: list[str] = []
    worker = Worker(torch, violations)
    tampered = worker.tampering.found
    own: list[str] = []
    guard(config, violations, own)
    send({"ready": True, "torch": str(torch.__version__)})
    waiting = b""
    while True:
        while b"\n" not in waiting:
            more = read(source, 1 << 20)
            if not more:
                os._exit(0)
            waiting += more
        line, _, waiting = waiting.partition(b"\n")
        asked = convert(loads(line), Asked)
        if isinstance(asked.request, LoadSolution):
            own[:] = [folder_of(asked.request.path)]
        failed, result = None, None
        try:
            result = worker.answer(asked.request)
        except BaseException as error:  # noqa: BLE001 - the failure is the reply
            failed = failure(error, torch, worker.device)
            del error
        refused, replaced = violations[:MAX_ENTRIES], tampered()[:MAX_ENTRIES]
        send(Answer(asked.number, refused, replaced, failed, result))
