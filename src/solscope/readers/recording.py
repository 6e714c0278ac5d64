"""Facts about a recording besides events: rank, stage, framework, header fields."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from solscope.patterns import lazy_pattern
from solscope.profile import ProcessGroup

_TP_IN_NAME = lazy_pattern(r"(?:^|[-_.])TP[-_]?(\d+)", re.IGNORECASE)
_OTHER_PARALLELISM = lazy_pattern(r"(?:^|[-_.])(?:DP|PP|EP|CP)[-_]?\d+", re.IGNORECASE)
_RANK_IN_NAME = lazy_pattern(r"(?:^|[-_.])rank[-_.]?(\d+)", re.IGNORECASE)
_STAGES = {"decode": "decode", "extend": "prefill", "prefill": "prefill"}
_STAGE_IN_NAME = lazy_pattern(r"[-_.](decode|extend|prefill)(?=[-_.])", re.IGNORECASE)

_FRAMEWORKS = (
    ("sglang", ("sglang/", "sgl_kernel::", "sglang::")),
    ("rtp-llm", ("rtp_llm/", "rtp_llm::", "maga_transformer/")),
    ("vllm", ("vllm/", "vllm::", "_C_cache_ops::")),
    ("tensorrt-llm", ("tensorrt_llm/", "tensorrt_llm::", "trtllm::")),
    ("xdit", ("xfuser/",)),
    ("diffusers", ("diffusers/",)),
    ("transformers", ("transformers/",)),
)

# Facts of a header that are worth keeping and can hold no secret, by the last part of their key.
_KEPT = frozenset(
    [
        "schemaVersion",
        "record_shapes",
        "with_stack",
        "with_flops",
        "with_modules",
        "profile_memory",
        "displayTimeUnit",
        "trace_id",
        "baseTimeNanoseconds",
        "backend",
        "rank",
        "world_size",
        "pg_count",
        "kind",
        "repo_id",
        "pipeline_tag",
        "torch_dtype",
        "batch_size",
        "text_input_length",
        "tag",
    ]
)
_ABOUT_LIMIT = 200


class FileNameFacts(NamedTuple):
    """What the name of a profile file says."""

    rank: int | None
    stage: str | None


def file_name_facts(path: Path) -> FileNameFacts:
    """Rank and stage from names such as `1700000000-TP-0-DECODE.trace.json.gz`."""
    name = path.name
    rank = _RANK_IN_NAME.search(name)
    if rank is None and not _OTHER_PARALLELISM.search(name):
        # With other kinds of parallelism, the number after TP is not the rank.
        rank = _TP_IN_NAME.search(name)
    stage = _STAGE_IN_NAME.search(name)
    return FileNameFacts(
        int(rank.group(1)) if rank and len(rank.group(1)) < 10 else None,
        _STAGES[stage.group(1).lower()] if stage else None,
    )


_PARALLELISM = lazy_pattern(r"(?<![a-z])(tp|dp|pp|ep|cp)(?![a-z])", re.IGNORECASE)
_SPELLED_OUT = {
    "tensor": "tp",
    "data": "dp",
    "pipeline": "pp",
    "expert": "ep",
    "context": "cp",
}
_MOST_GROUPS = 4096


def process_groups(config: Any) -> tuple[ProcessGroup, ...]:
    """Process groups of a header's `pg_config`; what has no ranks is left out."""
    groups = []
    for item in config[:_MOST_GROUPS] if isinstance(config, list) else []:
        ranks = item.get("ranks") if isinstance(item, dict) else None
        if not isinstance(ranks, list) or not all(isinstance(rank, int) for rank in ranks):
            continue
        name, text = (str(item.get(key) or "")[:80] for key in ("pg_name", "pg_desc"))
        groups.append(ProcessGroup(text or name, _parallelism(f"{name} {text}"), tuple(ranks)))
    return tuple(groups)


def _parallelism(text: str) -> str | None:
    """The kind of parallelism that a group's name or description states."""
    short = _PARALLELISM.search(text.replace("_", " "))
    if short is not None:
        return short.group(1).lower()
    lower = text.lower()
    return next((kind for word, kind in _SPELLED_OUT.items() if word in lower), None)


def guess_framework(names: Iterable[str]) -> str | None:
    """The serving framework whose files or operators occur among the event names."""
    # One search through all names is much faster than one per name; no mark spans two lines.
    text = "\n".join(names)
    frameworks = (
        framework for framework, marks in _FRAMEWORKS if any(mark in text for mark in marks)
    )
    return next(frameworks, None)


def safe_about(header: dict[str, Any]) -> dict[str, Any]:
    """Known small facts of a header (numbers, flags, short strings), nested ones by dotted key."""
    safe: dict[str, Any] = {}

    def visit(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                visit(f"{prefix}.{key}" if prefix else str(key), inner)
        elif prefix.rsplit(".", 1)[-1] in _KEPT and _is_small(value) and len(safe) < _ABOUT_LIMIT:
            safe[prefix] = value

    visit("", header)
    return safe


def _is_small(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) < 80
    return isinstance(value, (bool, int, float))


_VERSION = lazy_pattern(r"[\w.+-]{1,40}")


def safe_versions(header: dict[str, Any]) -> dict[str, str]:
    """Members of a header that hold a version and nothing else."""
    named = ((key, str(value)) for key, value in header.items() if value is not None)
    return {
        key: value
        for key, value in named
        if (key == "nccl" or key.endswith("_version")) and _VERSION.fullmatch(value)
    }
