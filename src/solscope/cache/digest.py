"""BLAKE2b without `hashlib`, which loads OpenSSL: that takes longer than most digests here."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # not CPython
    from hashlib import blake2b

__all__ = ["blake2b"]
