"""Opening and attributing a profile in one go, from the cache when both were done before."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace

import msgspec

from solscope.attribution import Attributed, attribute
from solscope.attribution.classify import RuleSet, load_rules
from solscope.cache import background
from solscope.cache.entries import entry_key
from solscope.readers import ReadOptions, opening
from solscope.readers.opening import Opening


def open_attributed(
    path: str | os.PathLike[str],
    *,
    options: ReadOptions | None = None,
    rules: RuleSet | None = None,
    companion: str | os.PathLike[str] | None = None,
    after_reading: Callable[[], None] | None = None,
) -> Attributed:
    """`attribute(open(path), rules, open(companion))`, or what that gave before."""
    with opening(path, options) as main:
        main.start()
        twin = None if companion is None else opening(companion, unreported(options))
        return attribute_opened(main, rules or load_rules(), twin, after_reading)


def attribute_opened(
    main: Opening,
    rules: RuleSet,
    twin: Opening | None = None,
    after_reading: Callable[[], None] | None = None,
) -> Attributed:
    """The same for a profile that is being opened, and for a companion that will be."""
    profile = main.profile()
    if after_reading is not None:
        after_reading()
    given = {"profile": profile, "rules": rules}
    key = _key(rules, main, twin, Opening.known_key)
    if main.entries is not None and key is not None:
        found = main.entries.get(key, Attributed, given)
        if found is not None:
            return found
    result = attribute(profile, rules, None if twin is None else twin.profile())

    def store() -> None:
        key = _key(rules, main, twin, Opening.key)
        if main.entries is not None and key is not None:
            main.entries.put(key, result, given)

    if main.entries is not None:
        background.submit(store)
    return result


def unreported(options: ReadOptions | None) -> ReadOptions | None:
    """The same options without progress, which is reported for one file."""
    return None if options is None else replace(options, progress=None)


def _key(
    rules: RuleSet,
    main: Opening,
    twin: Opening | None,
    key_of: Callable[[Opening], str | None],
) -> str | None:
    """Null when one of the profiles cannot be identified."""
    mine = key_of(main)
    other = None if twin is None else key_of(twin)
    if mine is None or (twin is not None and other is None):
        return None
    digest = hashlib.blake2b(msgspec.json.encode(rules.rules), digest_size=16).hexdigest()
    return entry_key("attributed", mine, digest, other)
