"""What a recording tells about itself besides events: rank, stage, framework, header facts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_RANK_IN_NAME = (
    re.compile(r"(?:^|[-_.])TP[-_]?(\d+)", re.IGNORECASE),
    re.compile(r"(?:^|[-_.])rank[-_.]?(\d+)", re.IGNORECASE),
    re.compile(r"_(\d+)\.\d{10,}\.pt\.trace\.json"),
)
_STAGES = {"decode": "decode", "extend": "prefill", "prefill": "prefill"}
_STAGE_IN_NAME = re.compile(r"[-_.](decode|extend|prefill)(?=[-_.])", re.IGNORECASE)

_FRAMEWORKS = (
    ("sglang", ("sglang/", "sgl_kernel::", "sglang::")),
    ("rtp-llm", ("rtp_llm/", "rtp_llm::", "maga_transformer/")),
    ("vllm", ("vllm/", "vllm::", "_C_cache_ops::")),
    ("tensorrt-llm", ("tensorrt_llm/", "tensorrt_llm::", "trtllm::")),
    ("xdit", ("xfuser/",)),
    ("diffusers", ("diffusers/",)),
    ("transformers", ("transformers/",)),
)

# Where recorders put the profiled program's environment and arguments. Never kept.
_PRIVATE = re.compile(
    r"env|command|cmd|argv|args|secret|token|password|user|host|path|dir$", re.IGNORECASE
)
_ABOUT_LIMIT = 200


class FileNameFacts(NamedTuple):
    """What the name of a profile file says."""

    rank: int | None
    stage: str | None


def file_name_facts(path: Path) -> FileNameFacts:
    """Rank and stage from names such as `1700000000-TP-0-DECODE.trace.json.gz`."""
    name = path.name
    ranks = (m for pattern in _RANK_IN_NAME if (m := pattern.search(name)))
    rank = next(ranks, None)
    stage = _STAGE_IN_NAME.search(name)
    return FileNameFacts(
        int(rank.group(1)) if rank and len(rank.group(1)) < 10 else None,
        _STAGES[stage.group(1).lower()] if stage else None,
    )


def guess_framework(names: Iterable[str]) -> str | None:
    """The serving framework whose files or operators occur among the event names."""
    seen = set()
    for name in names:
        for framework, marks in _FRAMEWORKS:
            if framework not in seen and any(mark in name for mark in marks):
                seen.add(framework)
    return next((framework for framework, _ in _FRAMEWORKS if framework in seen), None)


def safe_about(header: dict[str, Any]) -> dict[str, Any]:
    """Small facts of a header (numbers, flags, short strings), nested ones by dotted key."""
    kept: dict[str, Any] = {}

    def visit(prefix: str, value: Any) -> None:
        if len(kept) >= _ABOUT_LIMIT or _PRIVATE.search(prefix.rsplit(".", 1)[-1]):
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                visit(f"{prefix}.{key}" if prefix else str(key), inner)
        elif isinstance(value, (bool, int, float)) or (
            isinstance(value, str) and len(value) <= 120
        ):
            kept[prefix] = value

    for key, value in header.items():
        if key not in ("deviceProperties", "traceName"):
            visit(key, value)
    return kept
