"""Operators: one per file in `catalog/`, each with its axes and what one call costs at least.

    from solscope.operators import operator

    cost = operator("rms_norm").cost({"tokens": 4096, "hidden": 5120})
    print(cost.bytes, cost.flops)

Nothing here imports torch. To add an operator, write its file in `catalog/`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from solscope.operators import catalog
from solscope.operators.base import Operator
from solscope.registry import Registry

OPERATOR_MODULES = {
    module.name: f"{catalog.__name__}.{module.name}" for module in iter_modules(catalog.__path__)
}
"""Name of each operator, which is that of its file, and the module whose `OPERATOR` it is."""


def operators() -> Registry[Operator]:
    """All operators, imported."""
    registry: Registry[Operator] = Registry("operator")
    for name in OPERATOR_MODULES:
        registry.register(name, _load(name))
    return registry


def operator(name: str) -> Operator:
    """The operator called `name`, without importing the others."""
    return _load(name) if name in OPERATOR_MODULES else operators().get(name)


def _load(name: str) -> Operator:
    return cast("Operator", import_module(OPERATOR_MODULES[name]).OPERATOR)
