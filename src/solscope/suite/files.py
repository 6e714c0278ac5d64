"""Suites as one kind of file: `solscope.suite/1`, JSON.

A suite lists operators with their importance, and for each the shapes that matter with the share of
the operator's time that each represents. Two ship: `atrex`, the public one, and `decode`, with
shapes missing there. Any other is a file: `load("my-suite.json")`.

Weights of `atrex` are calls x time of the deployed kernel on XPU-A, in shares of the operator. A
shape whose calls were not recorded (135 of 440) counts as many as the operator's median shape does,
or one where none has any; its provenance says so.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from solscope.errors import DamagedFileError, InputError, UnknownFormatError, UsageError
from solscope.operators import OPERATOR_MODULES, operator, operators
from solscope.operators.base import Operator
from solscope.registry import Registry
from solscope.suite.atrex import SuiteOperator, check_has_shapes, load_suite
from solscope.suite.axes import suite_axes

SCHEMA = "solscope.suite/1"
SHIPPED = ("atrex", "decode")
"""Suites by name."""
RECORDED = "traces"
"""Where calls of a shape come from that were recorded; its provenance says so."""
_SUM_TOLERANCE = 1e-3
"""How far from 1 the weights of an operator's shapes may add up, as files round them."""


class ListedShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One shape of one operator."""

    id: str
    axes: dict[str, Any]
    """Sizes in the words of the catalog."""
    weight: float
    """Share of the operator's time; all shapes of an operator are 1."""
    description: str = ""
    provenance: dict[str, Any] = msgspec.field(default_factory=dict)
    """Where the shape and its weight come from."""


class ListedOperator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One operator with its shapes."""

    operator: str
    dtype: str
    importance: float
    """Share of GPU time; scores divide by the sum over the suite."""
    shapes: list[ListedShape]

    def shape(self, name: str) -> ListedShape:
        """The shape with this id; else an error that lists what exists."""
        registry: Registry[ListedShape] = Registry(f"shape of {self.operator}")
        for shape in self.shapes:
            registry.register(shape.id, shape)
        return registry.get(name)


class SuiteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole suite."""

    schema: str
    name: str
    title: str
    operators: list[ListedOperator]
    provenance: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def by_importance(self) -> list[ListedOperator]:
        """Most important first."""
        return sorted(self.operators, key=lambda listed: -listed.importance)

    @property
    def importance_sum(self) -> float:
        """What the importance adds up to."""
        return sum(listed.importance for listed in self.operators)

    def operator(self, name: str) -> ListedOperator:
        """The operator called `name`; else an error that says what is missing or what exists."""
        registry: Registry[ListedOperator] = Registry("operator", f"in suite {self.name}")
        for listed in self.by_importance:
            registry.register(listed.operator, listed)
        if name not in registry.names():
            check_has_shapes(name, self.name)
        return registry.get(name)


def load(name: str | Path = "atrex") -> SuiteFile:
    """A suite that ships, by name, or one from a file."""
    if name == "atrex":
        return _atrex()
    if name in SHIPPED:
        file = resources.files("solscope.suite") / "shipped" / f"{name}.json"
        return decode(file.read_bytes(), str(name))
    path = Path(name)
    if not path.is_file():
        shipped = ", ".join(SHIPPED)
        raise UsageError(f"no suite {str(name)!r}: neither a built-in suite ({shipped}) nor a file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return decode(content, str(path))


def decode(content: bytes, source: str) -> SuiteFile:
    """A suite from JSON, checked; errors name the place."""
    try:
        head = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnknownFormatError(f"{source}: not JSON: {error}") from error
    schema = head.get("schema") if isinstance(head, dict) else None
    if schema != SCHEMA:
        stated = f"schema {schema!r}" if schema else "no schema"
        raise UnknownFormatError(f'{source}: {stated}; expected "schema": "{SCHEMA}"')
    try:
        suite = msgspec.convert(head, SuiteFile)
    except msgspec.ValidationError as error:
        raise DamagedFileError(f"{source}: {error}") from error
    problems = validate(suite)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise DamagedFileError(f"{source}: {problems[0]}{more}")
    return suite


def dump(suite: SuiteFile) -> str:
    """A suite as JSON with one line per shape, so that changes are easy to read."""
    head = {name: getattr(suite, name) for name in ("schema", "name", "title", "provenance")}
    lines = [f'  "{name}": {_line(value)},' for name, value in head.items()]
    listed = []
    for op in suite.operators:
        shapes = ",\n".join(f"      {_line(shape)}" for shape in op.shapes)
        start = _line({"operator": op.operator, "dtype": op.dtype, "importance": op.importance})
        listed.append(f'    {start[:-1]}, "shapes": [\n{shapes}\n    ]}}')
    body = ",\n".join(listed)
    return "{\n" + "\n".join(lines) + f'\n  "operators": [\n{body}\n  ]\n}}\n'


def validate(suite: SuiteFile) -> list[str]:
    """What is wrong with a suite, each with its place; empty when nothing is."""
    problems = []
    if not suite.operators:
        problems.append("no operators")
    names = [listed.operator for listed in suite.operators]
    problems += [f"{name} is listed twice" for name in sorted(set(names)) if names.count(name) > 1]
    for listed in suite.operators:
        if listed.operator not in OPERATOR_MODULES:
            try:
                operators().get(listed.operator)
            except UsageError as error:
                problems.append(str(error))
            continue
        problems += [f"{listed.operator}: {text}" for text in _operator_problems(listed)]
    if suite.operators and suite.importance_sum <= 0:
        problems.append("the importance of all operators is 0")
    return problems


def _operator_problems(listed: ListedOperator) -> list[str]:
    problems = []
    if listed.importance < 0:
        problems.append(f"importance {listed.importance} is negative")
    if not listed.shapes:
        return [*problems, "no shapes"]
    ids = [shape.id for shape in listed.shapes]
    problems += [f"shape {id_} is listed twice" for id_ in sorted(set(ids)) if ids.count(id_) > 1]
    total = sum(shape.weight for shape in listed.shapes)
    if abs(total - 1) > _SUM_TOLERANCE:
        problems.append(f"the weights of its shapes add up to {total:.6g}, not 1")
    op = operator(listed.operator)
    for shape in listed.shapes:
        if shape.weight < 0:
            problems.append(f"shape {shape.id}: weight {shape.weight} is negative")
        problems += [f"shape {shape.id}: {text}" for text in _axes_problems(op, shape.axes)]
    return problems


def _axes_problems(op: Operator, axes: dict[str, Any]) -> list[str]:
    lacking = [name for name in op.axes if name not in axes]
    if lacking:
        return [f"axis {', '.join(lacking)} is missing (it needs: {', '.join(op.axes)})"]
    try:
        needed = op.cost(axes).bytes
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError) as error:
        return [f"axes {axes} make no sense: {error}"]
    return [] if needed >= 0 else [f"axes {axes} are negative"]


@cache
def _atrex() -> SuiteFile:
    """Made once, since every score asks for it; nobody changes what `load` returns."""
    suite = load_suite()
    listed = [
        ListedOperator(op.name, op.dtype, op.importance_score, _atrex_shapes(op))
        for op in suite.by_importance
    ]
    return SuiteFile(
        schema=SCHEMA,
        name="atrex",
        title="30 production operators, 440 hot shapes",
        operators=listed,
        provenance={
            "source": "alibaba/atrex-bench, commit eb8697d5, Apache-2.0",
            "profiles": suite.num_profiles,
            "weight": "calls x time of the deployed kernel on XPU-A",
        },
    )


def _atrex_shapes(op: SuiteOperator) -> list[ListedShape]:
    counted = sorted(shape.call_count for shape in op.shapes if shape.call_count)
    usual = counted[len(counted) // 2] if counted else 1
    times = [(shape.call_count or usual) * shape.prod_us for shape in op.shapes]
    total = sum(times)
    return [
        ListedShape(
            id=str(shape.id),
            axes=dict(suite_axes(op, shape)),
            weight=time / total,
            description=shape.description,
            provenance={
                "prod_us": shape.prod_us,
                "calls": shape.call_count or usual,
                "calls_from": RECORDED if shape.call_count else "median of the operator",
            },
        )
        for shape, time in zip(op.shapes, times, strict=True)
    ]


def _line(value: Any) -> str:
    """JSON on one line, with a space after `:` and `,`."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
