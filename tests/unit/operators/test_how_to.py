"""The example of the guide works as printed: its file, and its calculation by hand."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from solscope.operators.base import Cost, Operator
from solscope.operators.recorded import Recorded

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "add-an-operator.md"


def python_blocks() -> list[str]:
    text = GUIDE.read_text("utf-8")
    blocks = re.findall(r" {4}```python\n(.*?) {4}```", text, re.DOTALL)
    return [textwrap.dedent(block) for block in blocks]


def test_the_example_of_the_guide() -> None:
    file, test = python_blocks()
    module: dict[str, Any] = {"__name__": "gelu_and_mul"}
    exec(compile(file, "gelu_and_mul.py", "exec"), module)  # the guide's own code
    op = module["OPERATOR"]
    assert isinstance(op, Operator)

    def cost_of(name: str, **axes: object) -> Cost:
        assert name == op.name
        return op.cost(axes)

    def recognize(call: Recorded) -> object:
        return op.recorded[call.name](call)

    scope: dict[str, Any] = {"cost_of": cost_of, "recognize": recognize, "Recorded": Recorded}
    exec(compile(test, "test_costs.py", "exec"), scope)  # the guide's own code
    scope["test_gelu_and_mul"]()
