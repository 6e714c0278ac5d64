"""A named set of plug-ins of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from solscope.errors import UsageError

T = TypeVar("T")


class Registry(Generic[T]):
    """Plug-ins of one kind by name, in order of registration."""

    def __init__(self, kind: str, where: str = "") -> None:
        self.kind = kind
        self.where = f" {where}" if where else ""
        self._items: dict[str, T] = {}

    def register(self, name: str, item: T) -> T:
        """Add `item` and return it; a name can be taken only once."""
        if name in self._items:
            raise UsageError(f"{self.kind} {name!r} is registered twice")
        self._items[name] = item
        return item

    def get(self, name: str) -> T:
        """The plug-in called `name`; else an error that lists what exists."""
        if name in self._items:
            return self._items[name]
        import difflib

        near = difflib.get_close_matches(name, self._items, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(self._items)
        raise UsageError(f"no {self.kind} {name!r}{self.where}{hint} (available: {listed})")

    def names(self) -> tuple[str, ...]:
        return tuple(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())
