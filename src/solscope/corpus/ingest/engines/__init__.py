"""Engines: where profiles are read. `local` on this machine, `ray` on a cluster."""

from __future__ import annotations

from solscope.cores import cores
from solscope.corpus.ingest.engines.base import NO_LIMITS, Engine, Limits
from solscope.errors import UsageError

ENGINES = ("local", "ray")


def make_engine(
    name: str,
    workers: int | None = None,
    address: str | None = None,
    limits: Limits = NO_LIMITS,
) -> Engine:
    """The engine called `name`, with so many workers (all cores when left out)."""
    if workers is not None and workers < 1:
        raise UsageError(f"an engine needs at least one worker, not {workers}")
    if name == "local":
        from solscope.corpus.ingest.engines.local import LocalEngine

        if address is not None:
            raise UsageError("--address is for --engine ray")
        return LocalEngine(workers or cores(), limits=limits)
    if name == "ray":
        from solscope.corpus.ingest.engines.ray import RayEngine

        if limits != NO_LIMITS:
            raise UsageError("limits per file are for --engine local; Ray has its own")
        return RayEngine(workers, address)
    raise UsageError(f"no engine {name!r} (available: {', '.join(ENGINES)})")
