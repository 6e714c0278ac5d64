"""Names matched against rules, and why a name is what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import polars as pl

from solscope.attribution.rules import Category, Rule, required_literals
from solscope.errors import InputError
from solscope.names import demangle, functor, short_name
from solscope.patterns import SlowSearchError, search_limit

SEARCH_SECONDS = 2
"""Processor time that a rule of a user may take for one name."""
SEARCHED = 4096
"""Characters of a name that patterns see: names come from strangers' files and can be huge."""
MANY = 10
"""From so many names on, one pass over all of them for all texts is faster than name by name."""


class Match(msgspec.Struct, frozen=True):
    """What the rules say of one name."""

    rule_id: str | None = None
    category: Category = "other"
    operator: str | None = None
    detail: str | None = None
    generic: bool = False
    helper: str | None = None


class Explanation(msgspec.Struct, frozen=True):
    """Why a name was classified as it was; `str()` gives lines for a person."""

    name: str
    """Demangled name."""
    match: Match
    pattern: str | None
    matched: str | None
    """Text that the pattern matched."""
    op_matched: str | None
    """Text that the operator pattern matched."""
    also: tuple[tuple[str, Category], ...]
    """Later rules that match too, as (id, category)."""

    def __str__(self) -> str:
        if self.match.rule_id is None:
            return f"{self.match.category}: no rule matches {_cut(self.name)}"
        matched = _cut(self.matched or "")
        lines = [
            f"{self.match.category}: rule {self.match.rule_id} matches {matched!r}",
            f"  pattern: {self.pattern}",
        ]
        if self.match.generic:
            lines.append("  a generic rule: it recognizes the kind of kernel, not its purpose")
        if self.op_matched is not None:
            lines.append(f"  operator: {self.op_matched!r}")
        if self.match.detail is not None:
            lines.append(f"  detail: {_cut(self.match.detail)}")
        if self.also:
            lines.append("  later: " + ", ".join(f"{rule} ({cat})" for rule, cat in self.also))
        return "\n".join(lines)


class RuleSet:
    """Rules in order of precedence; patterns are compiled when a name first needs them.

    Most rules fail on most names, so a rule is tried only where one of the plain texts that its
    pattern needs occurs: all texts are looked for in all names in one pass.
    """

    def __init__(
        self, rules: Sequence[Rule], texts: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """`texts` has the `required_literals` of patterns for which they are known already."""
        self.rules = tuple(rules)
        needed_texts = texts or {}
        self._matchers = tuple(_Matcher(rule, rule.pattern in needed_texts) for rule in self.rules)
        self._rules_by_text: dict[str, list[int]] = {}
        self._always: list[int] = []
        for number, rule in enumerate(self.rules):
            needed = needed_texts.get(rule.pattern)
            needed = required_literals(rule.pattern) if needed is None else needed
            for text in needed:
                self._rules_by_text.setdefault(text, []).append(number)
            if not needed:
                self._always.append(number)

    def match(self, name: str, op: str | None = None) -> Match:
        """What the first matching rule says of `name`; category "other" when none matches."""
        text = demangle(name)[:SEARCHED]
        return self._first(name, text, op, self._texts_in(text))

    def match_all(self, names: Sequence[str], ops: Sequence[str | None]) -> list[Match]:
        """`match` for many names at once, much faster than one by one."""
        texts = [demangle(name)[:SEARCHED] for name in names]
        if len(texts) < MANY:
            hints = [self._texts_in(text) for text in texts]
        else:
            found = pl.Series(texts, dtype=pl.String).str
            hints = found.extract_many(list(self._rules_by_text), overlapping=True).to_list()
        return [
            self._first(name, text, op, present)
            for name, text, op, present in zip(names, texts, ops, hints, strict=True)
        ]

    def explain(self, name: str, op: str | None = None) -> Explanation:
        """The first rule that matches, the text it matched, and the later rules that would too."""
        text = demangle(name)[:SEARCHED]
        hits = list(self._hits(text, op, self._texts_in(text)))
        if not hits:
            return Explanation(text, Match(), None, None, None, ())
        first, match = hits[0]
        by_op = first.op_regex.search(op) if first.op_regex and op else None
        return Explanation(
            name=text,
            match=first.result(name, match),
            pattern=first.rule.pattern,
            matched=match.group(),
            op_matched=by_op.group() if by_op else None,
            also=tuple((hit.rule.id, hit.rule.category) for hit, _ in hits[1:]),
        )

    def _texts_in(self, text: str) -> list[str]:
        return [needed for needed in self._rules_by_text if needed in text]

    def _first(self, name: str, text: str, op: str | None, present: Sequence[str]) -> Match:
        for matcher, match in self._hits(text, op, present):
            return matcher.result(name, match)
        return Match()

    def _hits(
        self, text: str, op: str | None, present: Sequence[str]
    ) -> Iterator[tuple[_Matcher, re.Match[str]]]:
        numbers = set(self._always)
        numbers.update(*(self._rules_by_text[needed] for needed in set(present)))
        for number in sorted(numbers):
            match = self._matchers[number].search(text, op)
            if match is not None:
                yield self._matchers[number], match


class _Matcher:
    def __init__(self, rule: Rule, trusted: bool) -> None:
        self.rule = rule
        self._trusted = trusted
        """Whether the rule is built in: its pattern is known to take no time."""

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.rule.pattern)

    @cached_property
    def op_regex(self) -> re.Pattern[str] | None:
        return None if self.rule.op is None else re.compile(self.rule.op)

    def search(self, text: str, op: str | None) -> re.Match[str] | None:
        if self.rule.op is not None and op is None:
            return None
        if self._trusted:
            return self._search(text, op)
        try:
            with search_limit(SEARCH_SECONDS):
                return self._search(text, op)
        except SlowSearchError:
            raise InputError(
                f"rule {self.rule.id!r}: its pattern takes more than {SEARCH_SECONDS} s for one "
                "name; avoid repeats inside repeats, such as (a+)+"
            ) from None

    def _search(self, text: str, op: str | None) -> re.Match[str] | None:
        if self.op_regex is not None and not self.op_regex.search(op or ""):
            return None
        return self.regex.search(text)

    def result(self, name: str, match: re.Match[str]) -> Match:
        rule = self.rule
        return Match(
            rule_id=rule.id,
            category=rule.category,
            operator=rule.operator,
            detail=self._detail(name, match),
            generic=rule.generic,
            helper=rule.helper,
        )

    def _detail(self, name: str, match: re.Match[str]) -> str | None:
        how = self.rule.detail
        if how is None:
            return None
        detail = match["detail"] if how == "group" else functor(name) if how == "functor" else None
        return detail or short_name(name)


def _cut(text: str) -> str:
    return text if len(text) <= 100 else text[:97] + "..."
