"""Opening and attributing a profile in one go, from the cache when both were done before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec

from solscope.attribution import Attributed, attribute
from solscope.attribution.classify import load_rules
from solscope.attribution.rule_set import RuleSet
from solscope.cache import background
from solscope.cache.digest import blake2b
from solscope.cache.entries import entry_key
from solscope.profile import Profile
from solscope.readers import ReadOptions, opening
from solscope.readers.opening import Opening


class Companions:
    """The profiles that `given` names, each opened once; `given` may be a folder: all in it."""

    def __init__(self, given: str | os.PathLike[str], options: ReadOptions | None = None) -> None:
        self._given = given
        self._options = unreported(options)
        self._files: dict[int | None, list[str]] = {}
        self._openings: dict[str, Opening] = {}
        self._profiles: dict[str, Profile] = {}

    def openings(self, rank: int | None) -> list[Opening]:
        """The files of one rank, if they say which; not read yet."""
        return [self._opening(file) for file in self._of(rank)]

    def profiles(self, rank: int | None) -> Iterator[Profile]:
        """The same, each read when it is first asked for."""
        for file in self._of(rank):
            if file not in self._profiles:
                self._profiles[file] = self._opening(file).profile()
            yield self._profiles[file]

    def _of(self, rank: int | None) -> list[str]:
        if rank not in self._files:
            from solscope.attribution.companion_files import companion_files

            self._files[rank] = companion_files(self._given, rank)
        return self._files[rank]

    def _opening(self, file: str) -> Opening:
        if file not in self._openings:
            self._openings[file] = opening(file, self._options)
        return self._openings[file]


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
        lent = None if companion is None else Companions(companion, options)
        return attribute_opened(main, rules or load_rules(), lent, after_reading)


def attribute_opened(
    main: Opening,
    rules: RuleSet,
    companions: Companions | None = None,
    after_reading: Callable[[], None] | None = None,
) -> Attributed:
    """The same for a profile that is being opened."""
    # What depends on one file is taken from the cache while a thread may load its profile.
    cached = _cached(main, rules, []) if companions is None else None
    profile = main.profile()
    rank = profile.metadata.rank
    twins = [] if companions is None else companions.openings(rank)
    if after_reading is not None:
        after_reading()
    if companions is not None:
        cached = _cached(main, rules, twins)
    if cached is not None:
        return replace(cached, profile=profile)
    lent = [] if companions is None else list(companions.profiles(rank))
    result = attribute(profile, rules, lent)

    def store() -> None:
        key = _key(rules, main, twins, Opening.key)
        if main.entries is not None and key is not None:
            main.entries.put(key, result, {"profile": profile, "rules": rules})

    if main.entries is not None:
        background.submit(store)
    return result


def _cached(main: Opening, rules: RuleSet, twins: Sequence[Opening]) -> Attributed | None:
    """What the cache has of these files; its `profile` is for the caller to fill in."""
    key = _key(rules, main, twins, Opening.known_key)
    if main.entries is None or key is None:
        return None
    return main.entries.get(key, Attributed, {"profile": None, "rules": rules})


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
    digest = blake2b(msgspec.json.encode(rules.rules), digest_size=16).hexdigest()
    return entry_key("attributed", mine, digest, *others)
