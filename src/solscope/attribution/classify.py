"""Classify: give every GPU activity a category, from rules that are data.

The rules are in `rules.toml`, in order; the first match decides. A generic rule recognizes the kind
of kernel but not its purpose, and records in `detail` what it matched. A kernel without a rule
stays "other", which is better than a wrong category.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import polars as pl

from solscope.attribution.rule_set import Match, RuleSet
from solscope.attribution.rules import CATEGORIES, Category, Rule, built_in, read_rules
from solscope.errors import InputError

ENTRY_POINTS = "solscope.rules"
"""Group of entry points under which another package registers the path of a rules file."""

# What these kinds are is known without looking at their name.
_ADDED: dict[str, pl.DataType] = {
    "category": pl.Enum(CATEGORIES),
    "rule": pl.Categorical(),
    "detail": pl.Categorical(),
    "generic": pl.Boolean(),
}
_BY_KIND: dict[str, Category] = {"memcpy": "memcpy", "memset": "memset", "graph": "other"}


def load_rules(extra: Sequence[Path] = ()) -> RuleSet:
    """The built-in rules, preceded by those of the `extra` files, which are of the same form.

    A rule with the id of a later one replaces it. A file that cannot be used raises `InputError`.
    A bare name that is no file stands for the rules that another package offers under it.
    """
    if not extra:
        return _built_in_rules()
    rules: dict[str, Rule] = {}
    for path in (_offered(path) or path for path in extra):
        for rule in read_rules(path):
            rules.setdefault(rule.id, rule)
    own = built_in()
    for rule in own.rules:
        rules.setdefault(rule.id, rule)
    return RuleSet(tuple(rules.values()), own.texts)


@cache
def _built_in_rules() -> RuleSet:
    """One for all profiles: what it has compiled for one serves the others."""
    own = built_in()
    return RuleSet(own.rules, own.texts)


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


def classify(gpu: pl.DataFrame, rules: RuleSet) -> pl.DataFrame:
    """Add `category`, `rule`, `detail` and `generic` to a table of GPU activities.

    Reads `kind`, `name` and, where there is one, `op` (name of the linked CPU operator, null when
    unknown). Each distinct combination is matched once; rows keep their order.
    """
    if gpu.is_empty():
        return gpu.with_columns(pl.lit(None, kind).alias(name) for name, kind in _ADDED.items())
    keys = [column for column in ("kind", "name", "op") if column in gpu.columns]
    unique = gpu.select(keys).unique()
    matches = _match_rows(unique, rules)
    added = pl.DataFrame(
        {
            "category": [match.category for match in matches],
            "rule": [match.rule_id for match in matches],
            "detail": [match.detail for match in matches],
            "generic": [match.generic for match in matches],
        },
        schema=_ADDED,
    )
    table = pl.concat([unique, added], how="horizontal")
    return gpu.join(table, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _match_rows(rows: pl.DataFrame, rules: RuleSet) -> list[Match]:
    texts = {column.name: column.cast(pl.String).to_list() for column in rows}
    names = [name or "" for name in texts["name"]]
    by_name = rules.match_all(names, texts.get("op", [None] * len(names)))
    return [
        Match(category=_BY_KIND[kind]) if kind in _BY_KIND else match
        for kind, match in zip(texts["kind"], by_name, strict=True)
    ]
