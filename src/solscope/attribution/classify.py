"""Classify: give every GPU activity a category, from rules that are data.

The rules are in `rules.toml`, in order; the first match decides. A generic rule recognizes the kind
of kernel but not its purpose, and records in `detail` what it matched. A kernel without a rule
stays "other", which is better than a wrong category.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import polars as pl

from solscope.compiled import compiled, parse_toml
from solscope.errors import InputError
from solscope.names import demangle, functor, short_name
from solscope.patterns import SlowSearchError, lazy_pattern, search_limit

Category = Literal[
    "gemm",
    "attention",
    "linear_attention",
    "moe",
    "comm",
    "norm",
    "activation",
    "rope",
    "kv_cache",
    "quant",
    "sampling",
    "softmax",
    "embedding",
    "conv",
    "pool",
    "sort_scan",
    "optimizer",
    "copy",
    "memcpy",
    "memset",
    "elementwise",
    "reduce",
    "other",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)
"""Closed list, in the order in which tables show it."""

MAX_RULES_BYTES = 1 << 22
RULES_FILE = Path(__file__).with_name("rules.toml")
ENTRY_POINTS = "solscope.rules"
"""Group of entry points under which another package registers the path of a rules file."""
SEARCH_SECONDS = 2
"""Processor time that a rule of a user may take for one name."""
SEARCHED = 4096
"""Characters of a name that patterns see: names come from strangers' files and can be huge."""

# What these kinds are is known without looking at their name.
_BY_KIND: dict[str, Category] = {"memcpy": "memcpy", "memset": "memset", "graph": "other"}


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of knowledge: names that look like this belong to that category."""

    id: str
    """Stable name, `category.family`."""
    category: Category
    pattern: str
    """Regular expression, searched in the demangled full name (its first 4096 characters)."""
    op: str | None = None
    """Regular expression on the linked CPU operator; such a rule is silent when none is known."""
    operator: str | None = None
    """Entry of the operator catalog that such a kernel implements."""
    generic: bool = False
    """True for a rule that catches a whole family without knowing what the kernel is for."""
    detail: Literal["group", "functor", "name"] | None = None
    """How to say what was caught: by the pattern's group `detail`, the functor or the name."""
    helper: Literal["previous", "next"] | None = None
    """This kernel only serves a neighbor: the GEMM, attention, ... before it or after it."""
    examples: tuple[str, ...] = ()
    """Real names whose first match is this rule."""
    example_op: str | None = None
    """CPU operator that goes with `examples`, for a rule with `op`."""


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
        hints = pl.Series(texts, dtype=pl.String).str.extract_many(
            list(self._rules_by_text), overlapping=True
        )
        return [
            self._first(name, text, op, present)
            for name, text, op, present in zip(names, texts, ops, hints.to_list(), strict=True)
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


def required_literals(pattern: str) -> tuple[str, ...]:
    """Texts one of which must occur for `pattern` to match; empty when that is not known.

    Only plain text outside groups and classes counts: the longest piece of each alternative at the
    top level, when all of them have at least three characters.
    """
    best = [max(pieces, key=len, default="") for pieces in _plain_pieces(pattern)]
    return tuple(dict.fromkeys(best)) if all(len(text) >= 3 for text in best) else ()


_PATTERN_PART = lazy_pattern(
    r"\\(?P<escape>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|\d+|.)"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<maybe>[*?]|\{[^}]*\})"
    r"|(?P<text>[^\\\[\](){}|*+?.^$]+)|(?P<mark>.)"
)
_CHANGES_TEXT = lazy_pattern(r"\(\?[a-zA-Z]*[ix]")
"""Flags under which plain text in a pattern does not stand for itself."""


def _plain_pieces(pattern: str) -> list[list[str]]:
    branches: list[list[str]] = [[""]]
    depth = 0
    for token in _PATTERN_PART.finditer("" if _CHANGES_TEXT.search(pattern) else pattern):
        pieces, mark = branches[-1], token["mark"]
        if mark in ("(", ")"):
            depth += 1 if mark == "(" else -1
            pieces.append("")
        elif depth:
            continue
        elif token["text"]:
            pieces[-1] += token["text"]
        elif token["escape"] and not token["escape"].isalnum():
            pieces[-1] += token["escape"]
        elif mark == "|":
            branches.append([""])
        else:
            if token["maybe"]:  # the character before it may be absent
                pieces[-1] = pieces[-1][:-1]
            pieces.append("")
    return branches


def load_rules(extra: Sequence[Path] = ()) -> RuleSet:
    """The built-in rules, preceded by those of the `extra` files, which are of the same form.

    A rule with the id of a later one replaces it. A file that cannot be used raises `InputError`.
    A bare name that is no file stands for the rules that another package offers under it.
    """
    rules: dict[str, Rule] = {}
    for path in (_offered(path) or path for path in extra):
        for rule in _read_rules(path):
            _check_patterns(path, rule)
            rules.setdefault(rule.id, rule)
    built_in = _built_in()
    for rule in built_in.rules:
        rules.setdefault(rule.id, rule)
    return RuleSet(tuple(rules.values()), built_in.texts)


def _offered(name: Path) -> Path | None:
    """The rules file that a package registered under this name; null when it is no such name.

    Rules are used only where they are asked for: what is installed must not change a result.
    """
    if name.suffix or len(name.parts) != 1 or name.exists():
        return None
    from importlib.metadata import entry_points

    points = entry_points(group=ENTRY_POINTS, name=str(name))
    if not points:
        return None
    if len({point.value for point in points}) > 1:
        raise InputError(f"several packages offer rules {str(name)!r}; pass the path of a file")
    try:
        return Path(next(iter(points)).load())
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"rules {str(name)!r} cannot be loaded: {reason}") from error


class _BuiltIn(NamedTuple):
    rules: tuple[Rule, ...]
    texts: Mapping[str, Sequence[str]]
    """The `required_literals` of each pattern."""


@cache
def _built_in() -> _BuiltIn:
    document, texts = compiled(RULES_FILE, __file__, _compile_rules)
    return _BuiltIn(tuple(_checked_rules(RULES_FILE, document)), texts)


def _compile_rules(text: str) -> tuple[dict[str, Any], dict[str, Sequence[str]]]:
    document = parse_toml(text)
    patterns = [rule.pattern for rule in _checked_rules(RULES_FILE, document)]
    return document, {pattern: required_literals(pattern) for pattern in patterns}


def _read_rules(path: Path) -> list[Rule]:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file")
        if path.stat().st_size > MAX_RULES_BYTES:
            raise InputError(
                f"{path}: larger than {MAX_RULES_BYTES >> 20} MiB, so not a rules file"
            )
        document = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    return _checked_rules(path, document)


def _checked_rules(path: Path, document: dict[str, Any]) -> list[Rule]:
    entries = document.get("rule")
    if not isinstance(entries, list) or set(document) != {"rule"}:
        raise InputError(f"{path}: a rules file may contain only [[rule]] tables")
    rules = [_read_rule(path, number, entry) for number, entry in enumerate(entries, start=1)]
    _check_unique(path, rules)
    return rules


def _read_rule(path: Path, number: int, entry: object) -> Rule:
    name = entry.get("id") if isinstance(entry, dict) else None
    where = f"{path}: rule {name!r}" if name else f"{path}: rule number {number}"
    try:
        rule = msgspec.convert(entry, Rule)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {_reason(error)}") from error
    if rule.generic and rule.detail is None:
        raise InputError(f"{where}: a generic rule needs `detail` (group, functor or name)")
    if rule.detail == "group" and "(?P<detail>" not in rule.pattern:
        raise InputError(f'{where}: detail = "group" needs a group (?P<detail>...) in the pattern')
    return rule


def _reason(error: msgspec.ValidationError) -> str:
    text = str(error)
    return f"{text}; categories: {', '.join(CATEGORIES)}" if "$.category" in text else text


def _check_unique(path: Path, rules: Sequence[Rule]) -> None:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise InputError(f"{path}: rule {rule.id!r} is defined twice")
        seen.add(rule.id)


def _check_patterns(path: Path, rule: Rule) -> None:
    where = f"{path}: rule {rule.id!r}"
    _check_pattern(f"{where}: pattern", rule.pattern)
    _check_pattern(f"{where}: op", rule.op or "")


def _check_pattern(where: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"{where} is not a regular expression: {error}") from error


def classify(gpu: pl.DataFrame, rules: RuleSet) -> pl.DataFrame:
    """Add `category`, `rule`, `detail` and `generic` to a table of GPU activities.

    Reads `kind`, `name` and, where there is one, `op` (name of the linked CPU operator, null when
    unknown). Each distinct combination is matched once; rows keep their order.
    """
    keys = [column for column in ("kind", "name", "op") if column in gpu.columns]
    unique = gpu.select(keys).unique()
    matches = _match_rows(unique.select(pl.col(keys).cast(pl.String)), rules)
    added = pl.DataFrame(
        {
            "category": [match.category for match in matches],
            "rule": [match.rule_id for match in matches],
            "detail": [match.detail for match in matches],
            "generic": [match.generic for match in matches],
        },
        schema={
            "category": pl.Enum(CATEGORIES),
            "rule": pl.Categorical(),
            "detail": pl.Categorical(),
            "generic": pl.Boolean(),
        },
    )
    table = pl.concat([unique, added], how="horizontal")
    return gpu.join(table, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _match_rows(rows: pl.DataFrame, rules: RuleSet) -> list[Match]:
    names = rows["name"].fill_null("").to_list()
    ops = rows["op"].to_list() if "op" in rows.columns else [None] * len(names)
    by_name = rules.match_all(names, ops)
    return [
        Match(category=_BY_KIND[kind]) if kind in _BY_KIND else match
        for kind, match in zip(rows["kind"], by_name, strict=True)
    ]


def _cut(text: str) -> str:
    return text if len(text) <= 100 else text[:97] + "..."
