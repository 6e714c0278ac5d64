"""The form of a worker's replies: what shares its process can write to its pipe as well."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from solscope.bench.base import Status


class _Described(msgspec.Struct):
    """An output as a worker describes it."""

    name: str
    shape: list[Annotated[int, msgspec.Meta(ge=0)]]
    dtype: str
    alias: str | None


class _Reply(msgspec.Struct):
    """What every reply has, and what the evaluator computes with."""

    tried: list[str]
    tampered: list[str]
    failed: Status | None = None
    reason: str = ""
    setup_us: list[float] = []
    events_us: list[float] = []
    host_us: list[float] = []
    lag_us: list[float] = []
    span_us: list[float] = []
    activities: list[float] = []


def is_whole(reply: dict[str, Any]) -> bool:
    """Whether a reply is of the form that workers send."""
    try:
        if msgspec.convert(reply, _Reply).failed == "passed":
            return False
        outputs = msgspec.convert(reply.get("outputs", []), list[Any])
        for one in outputs:
            msgspec.convert(one if isinstance(one, list) else [one], list[_Described])
    except msgspec.ValidationError:
        return False
    return True
