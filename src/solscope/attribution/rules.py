"""Rules on the names of kernels, read from `rules.toml` and from files of the same form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from solscope.compiled import compiled, parse_toml
from solscope.errors import InputError
from solscope.patterns import lazy_pattern

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


class BuiltIn(NamedTuple):
    """Rules that ship with solscope, and what was worked out about them."""

    rules: tuple[Rule, ...]
    texts: Mapping[str, Sequence[str]]
    """The `required_literals` of each pattern."""


@cache
def built_in() -> BuiltIn:
    """The rules of `rules.toml`."""
    document, texts = compiled(RULES_FILE, __file__, _compile_rules)
    return BuiltIn(tuple(_checked_rules(RULES_FILE, document)), texts)


def _compile_rules(text: str) -> tuple[dict[str, Any], dict[str, Sequence[str]]]:
    document = parse_toml(text)
    patterns = [rule.pattern for rule in _checked_rules(RULES_FILE, document)]
    return document, {pattern: required_literals(pattern) for pattern in patterns}


def read_rules(path: Path) -> list[Rule]:
    """The rules of a file; `InputError` where it cannot be used."""
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
    rules = _checked_rules(path, document)
    for rule in rules:
        _check_patterns(path, rule)
    return rules


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
