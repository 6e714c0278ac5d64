"""Opening and attributing a profile in one go, from the cache when both were done before."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from solscope.attribution import Attributed, attribute
from solscope.attribution.classify import load_rules
from solscope.attribution.companions import companion_files
from solscope.attribution.rule_set import RuleSet
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
    """`attribute(open(path), rules, open(companion))`, or what that gave before.

    `companion` may be a folder: all profiles in it.
    """
    with opening(path, options) as main:
        main.start()
        return attribute_opened(main, rules or load_rules(), companion, options, after_reading)


def attribute_opened(
    main: Opening,
    rules: RuleSet,
    companion: str | os.PathLike[str] | None = None,
    options: ReadOptions | None = None,
    after_reading: Callable[[], None] | None = None,
) -> Attributed:
    """The same for a profile that is being opened."""
    profile = main.profile()
    twins = [
        opening(file, unreported(options))
        for file in ([] if companion is None else companion_files(companion, profile.metadata.rank))
    ]
    if after_reading is not None:
        after_reading()
    given = {"profile": profile, "rules": rules}
    key = _key(rules, main, twins, Opening.known_key)
    if main.entries is not None and key is not None:
        cached = main.entries.get(key, Attributed, given)
        if cached is not None:
            return cached
    result = attribute(profile, rules, [twin.profile() for twin in twins])

    def store() -> None:
        key = _key(rules, main, twins, Opening.key)
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
    twins: Sequence[Opening],
    key_of: Callable[[Opening], str | None],
) -> str | None:
    """Null when one of the profiles cannot be identified."""
    mine, others = key_of(main), [key_of(twin) for twin in twins]
    if mine is None or None in others:
        return None
    digest = hashlib.blake2b(msgspec.json.encode(rules.rules), digest_size=16).hexdigest()
    return entry_key("attributed", mine, digest, *others)
