"""An operator is in one file, which names every other place that knows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import solscope
from solscope.operators import OPERATOR_MODULES, operator, operators

SOURCE = Path(solscope.__file__).parent
ELSEWHERE = {
    "kernels": ("attribution/rules.toml",),
    "roles": tuple(
        path.relative_to(SOURCE).as_posix()
        for path in sorted((SOURCE / "operators" / "from_config").glob("*.py"))
    ),
    "shapes": ("suite/shipped/decode.json",),
}
"""Where an operator's name may stand besides its file, by what is found there: names of kernels,
roles of a model's layer, shapes beyond the public suite."""


def also(name: str) -> str:
    """The comment that the operator's file must have; empty where none is due."""
    # In the rules, a category may have the same name ("copy").
    patterns = {".toml": rf'^operator = "{name}"$', ".py": rf'"{name}"', ".json": rf'"{name}"'}
    places = [
        f"{what} in {path}"
        for what, paths in ELSEWHERE.items()
        for path in paths
        if re.search(patterns[Path(path).suffix], (SOURCE / path).read_text("utf-8"), re.MULTILINE)
    ]
    return f"Also: {', '.join(places)}." if places else ""


@pytest.mark.parametrize("name", OPERATOR_MODULES)
def test_the_file_names_every_other_place(name: str) -> None:
    file = SOURCE / "operators" / "catalog" / f"{name}.py"
    comment = re.search(r"^# (Also: (?:.*\n)(?:# .*\n)*)", file.read_text("utf-8"), re.MULTILINE)
    text = comment[1].replace("\n# ", " ").strip() if comment else ""
    assert text == also(name)


def test_no_two_operators_claim_one_recorded_name() -> None:
    names = [name for op in operators() for name in op.recorded]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("name", OPERATOR_MODULES)
def test_suite_operators_say_how_the_suite_names_their_axes(name: str) -> None:
    op = operator(name)
    assert (op.suite_id is None) == (op.suite_axes is None) == (op.published is None)
