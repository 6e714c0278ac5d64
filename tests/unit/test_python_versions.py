"""The package uses nothing that its oldest Python lacks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from solscope.attribution.sequence import Letter

PACKAGE = Path(__file__).parents[2] / "src" / "solscope"
NEW_MODULES = {"tomllib", "asyncio.taskgroups", "asyncio.timeouts", "wsgiref.types"}
NEW_NAMES = {
    "asyncio": {"Barrier", "BrokenBarrierError", "Runner", "TaskGroup", "timeout", "timeout_at"},
    "builtins": {"BaseExceptionGroup", "ExceptionGroup", "PythonFinalizationError"},
    "calendar": {"Day", "Month"},
    "collections.abc": {"Buffer"},
    "contextlib": {"chdir"},
    "copy": {"replace"},
    "datetime": {"UTC"},
    "enum": {
        *("CONFORM", "CONTINUOUS", "EJECT", "EnumCheck", "EnumType", "FlagBoundary", "KEEP"),
        *("NAMED_FLAGS", "ReprEnum", "STRICT", "StrEnum", "UNIQUE", "global_enum", "member"),
        *("nonmember", "property", "show_flag_values", "verify"),
    },
    "functools": {"Placeholder"},
    "hashlib": {"file_digest"},
    "inspect": {"BufferFlags", "getasyncgenlocals", "getasyncgenstate", "getmembers_static"},
    "itertools": {"batched"},
    "locale": {"getencoding"},
    "logging": {"getHandlerByName", "getHandlerNames", "getLevelNamesMapping"},
    "math": {"cbrt", "exp2", "fma", "sumprod"},
    "operator": {"call", "is_none", "is_not_none"},
    "os": {"listdrives", "listmounts", "process_cpu_count", "unshare"},
    "queue": {"ShutDown"},
    "random": {"binomialvariate"},
    "re": {"NOFLAG", "PatternError"},
    "statistics": {"kde", "kde_random"},
    "sys": {"activate_stack_trampoline", "exception", "monitoring"},
    "threading": {"setprofile_all_threads", "settrace_all_threads"},
    "types": {"CapsuleType", "get_original_bases"},
    "typing": {
        *("LiteralString", "Never", "NoDefault", "NotRequired", "ReadOnly", "Required", "Self"),
        *("TypeAliasType", "TypeIs", "TypeVarTuple", "Unpack", "assert_never", "assert_type"),
        *("clear_overloads", "dataclass_transform", "get_overloads", "override", "reveal_type"),
    },
    "warnings": {"deprecated"},
}
"""Names of the standard library that Python 3.11 and later added, by module."""


def test_nothing_newer_than_the_oldest_python_is_used() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    newer = [
        f"{file.relative_to(PACKAGE)}:{line}: {name}"
        for file in files
        for line, name in newer_names(file.read_text("utf-8"))
    ]
    assert newer == []


def test_the_search_finds_each_form() -> None:
    code = """
import datetime as dt, enum, sys, tomllib
from typing import Self
if sys.version_info >= (3, 11):
    from hashlib import file_digest
class A(enum.StrEnum): ...
raise ExceptionGroup("", [dt.UTC])
"""
    assert sorted(name for _, name in newer_names(code)) == [
        *("builtins.ExceptionGroup", "datetime.UTC", "enum.StrEnum", "tomllib", "typing.Self"),
    ]


def test_a_letter_is_formatted_as_its_value() -> None:
    gemm = Letter.GEMM
    assert [str(gemm), f"{gemm}", f"{gemm:>2}", "".join([gemm])] == ["G", "G", " G", "G"]
    assert type(str(gemm)) is str


def newer_names(code: str) -> list[tuple[int, str]]:
    """Where `code` uses what Python 3.10 lacks, unless it asks for the version first.

    Syntax that 3.10 lacks is not looked for: ruff knows the target version.
    """
    modules = {"builtins": "builtins"}
    found: list[tuple[int, str]] = []
    for node in _unguarded(ast.parse(code)) if _mentions_newer(code) else ():
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
            found += [(node.lineno, one.name) for one in node.names if one.name in NEW_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names} & NEW_NAMES.get(node.module or "", set())
            found += [(node.lineno, f"{node.module}.{name}") for name in names]
            found += [(node.lineno, str(node.module))] if node.module in NEW_MODULES else []
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if node.attr in NEW_NAMES.get(module, ()):
                found.append((node.lineno, f"{module}.{node.attr}"))
        elif isinstance(node, ast.Name) and node.id in NEW_NAMES["builtins"]:
            found.append((node.lineno, f"builtins.{node.id}"))
    return found


def _mentions_newer(code: str) -> bool:
    """Whether the words are there at all: looking at every node of every file takes long."""
    words = {*re.findall(r"\w+", code), "builtins"}
    return any(words.issuperset(module.split(".")) for module in NEW_MODULES) or any(
        words.issuperset(module.split(".")) and words & names for module, names in NEW_NAMES.items()
    )


def _unguarded(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below `node`, in the order of the source."""
    left = [node]
    while left:
        one = left.pop()
        if not (isinstance(one, ast.If) and "version_info" in ast.unparse(one.test)):
            yield one
            left += reversed(list(ast.iter_child_nodes(one)))
