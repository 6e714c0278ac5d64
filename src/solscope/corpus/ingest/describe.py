"""What is known about a profile besides its times: model, framework, GPU, date, tags.

The trace states some of it; a sidecar (`X.solscope.json`, a flat JSON object next to `X.json.gz`)
more; tags given with the command come last and win. What none of them states is null.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from solscope.corpus.schema import METADATA
from solscope.errors import InputError
from solscope.events import GPU_KINDS
from solscope.hardware import Hardware
from solscope.operators.from_config import Model
from solscope.profile import Profile

SIDECAR = ".solscope.json"
NUMBERS = ("tp", "ep", "dp")
DATE = "date"
TRUNCATED = "truncated"
"""Tag of a profile whose file breaks off before its end: `true`."""
RESERVED = ("phase", "hardware", "format", "rank", "world_size", TRUNCATED)
"""Names that profiles are chosen by and that no tag may take."""
MOST_TAGS = 64
"""Tags in one sidecar, at most."""
LONGEST_TEXT = 1000
"""Characters of a tag, at most."""
_LARGEST_SIDECAR = 1 << 20
"""Bytes of a sidecar, at most: `MOST_TAGS` tags are far smaller."""
_TRACE_SUFFIX = re.compile(
    r"(?:\.pt)?(?:\.trace)?\.(?:json|sqlite|nsys-rep|csv|txt)(?:\.(?:gz|zst))?$", re.IGNORECASE
)
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Description:
    """Columns of `profiles` that describe where a profile comes from."""

    columns: dict[str, Any]
    gpu_is_tagged: bool
    """The GPU is named by a sidecar or tag, because the trace does not name it."""


def describe(
    profile: Profile,
    path: Path,
    tags: dict[str, str],
    model: Model | None = None,
    card: Hardware | None = None,
) -> Description:
    """Facts of the trace, under those of its sidecar, under `tags`."""
    meta = profile.metadata
    stated = {**read_sidecar(path), **tags}
    device = next((d.name for d in meta.devices if d.name), None)
    gpu = device if card is None else card.name
    facts: dict[str, Any] = {
        "model": _model_in_header(meta.about) or (None if model is None else model.name),
        "framework": meta.framework,
        "version": meta.versions.get(f"{meta.framework}_version"),
        "gpu": gpu,
        "tp": None,
        "ep": None,
        "dp": None,
        "host": meta.host,
    }
    facts |= {name: stated[name] for name in METADATA if name in stated}
    facts |= {name: _number(name, facts[name]) for name in NUMBERS if facts[name] is not None}
    others = {key: value for key, value in stated.items() if key not in (*METADATA, DATE)}
    if any(warning.code == TRUNCATED for warning in profile.warnings):
        others[TRUNCATED] = "true"
    date = stated.get(DATE)
    return Description(
        columns={
            **facts,
            "rank": meta.rank,
            "world_size": meta.world_size,
            "recorded_ns": _recorded(profile) if date is None else parse_date(date),
            "tags": msgspec.json.encode(others, order="sorted").decode(),
        },
        gpu_is_tagged=gpu is None and "gpu" in stated,
    )


def is_truncated(row: Mapping[str, Any]) -> bool:
    """Whether a row of `profiles` is of a file that breaks off before its end."""
    return TRUNCATED in msgspec.json.decode(row["tags"], type=dict[str, str])


def parse_tag(text: str) -> tuple[str, str]:
    """`key=value`; `InputError` when it is none."""
    key, equals, value = text.partition("=")
    if not equals or not _KEY.fullmatch(key):
        raise InputError(
            f"a tag is written key=value, with letters, digits, '_', '.' and '-' in the key; "
            f"not {text[:80]!r}"
        )
    check_tag(key, value)
    return key, value


def check_tag(key: str, value: str) -> None:
    """`InputError` for a tag that the store cannot take."""
    if key in RESERVED:
        raise InputError(f"tag {key} is read from the profile itself; choose another name")
    if len(value) > LONGEST_TEXT:
        raise InputError(f"tag {key}: longer than {LONGEST_TEXT} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"tag {key}: not valid Unicode text") from None
    if key in NUMBERS:
        _number(key, value)
    if key == DATE:
        parse_date(value)


def parse_date(text: str) -> int:
    """An ISO date or time as Unix time in ns; without a zone it is UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise InputError(f"tag date: {text[:80]!r} is not an ISO date, e.g. 2026-11-15") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def read_sidecar(path: Path) -> dict[str, str]:
    """The facts in the sidecar of a profile; empty without one."""
    for name in sidecar_names(path.name):
        file = path.with_name(name)
        if file.is_file() and file != path:
            return _parse_sidecar(file)
    return {}


def sidecar_names(name: str) -> list[str]:
    """What the sidecar of a file of that name may be called, the first one found counts."""
    return list(dict.fromkeys((name + SIDECAR, _TRACE_SUFFIX.sub("", name) + SIDECAR)))


def _parse_sidecar(file: Path) -> dict[str, str]:
    if file.stat().st_size > _LARGEST_SIDECAR:
        raise InputError(f"{file}: too large for a sidecar")
    try:
        facts = msgspec.json.decode(
            file.read_bytes(), type=dict[str, str | int | float | bool | None]
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{file}: a sidecar must be one flat JSON object of texts: {error}"
        ) from None
    if len(facts) > MOST_TAGS:
        raise InputError(f"{file}: more than {MOST_TAGS} tags")
    tags = {key: _text(value) for key, value in facts.items() if value is not None}
    for key, value in tags.items():
        if not _KEY.fullmatch(key):
            raise InputError(f"{file}: {key[:80]!r} is not a valid tag name")
        check_tag(key, value)
    return tags


def _text(value: str | float | bool) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _number(key: str, value: Any) -> int:
    try:
        number = int(value)
    except ValueError:
        raise InputError(f"tag {key} must be a whole number, not {str(value)[:80]!r}") from None
    if not 0 < number < 1 << 32:
        raise InputError(f"tag {key}: {number} is out of range")
    return number


def _model_in_header(about: dict[str, Any]) -> str | None:
    """The repository that a header names as the model."""
    repositories = (value for key, value in about.items() if key.rsplit(".", 1)[-1] == "repo_id")
    return next((value for value in repositories if isinstance(value, str)), None)


def _recorded(profile: Profile) -> int | None:
    """When the first GPU activity ran; null where the trace has no wall clock."""
    offset = profile.metadata.unix_offset_ns
    if not offset:
        return None
    first = profile.events.filter(pl.col("kind").is_in(GPU_KINDS))["start_ns"].min()
    return offset + first if isinstance(first, int) else None
