"""Fixtures of tests of the store."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from solscope.attribution import Attributed, attribute
from solscope.corpus.ingest import extract
from solscope.profile import Profile

SMALL_BYTES = 1 << 20
_ATTRIBUTED: dict[bytes, Attributed] = {}


@pytest.fixture(autouse=True)
def _attributed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attribute traces with the same content once; hundreds of tests write the same ones."""
    monkeypatch.setattr(extract, "attribute", _remembered)


def _remembered(profile: Profile) -> Attributed:
    path = Path(profile.path)
    if not path.is_file() or path.stat().st_size > SMALL_BYTES:
        return attribute(profile)
    key = hashlib.blake2b(path.read_bytes()).digest()
    if key not in _ATTRIBUTED:
        _ATTRIBUTED[key] = attribute(profile)
    known = _ATTRIBUTED[key]
    # A file may change while it is read, and its name can say which rank it is.
    same = known.profile.metadata == profile.metadata
    if not same or not known.profile.events.equals(profile.events):
        return attribute(profile)
    return replace(known, profile=profile)
