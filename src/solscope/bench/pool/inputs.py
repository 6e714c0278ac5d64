"""Sets of inputs in shared memory: several draws of one shape, each at its own addresses.

What a worker can write to says nothing about what was drawn. References, fingerprints and bounds
are hence made of values in memory that no worker sees (`InputSets.inputs`): kept while they are
small, else drawn again from the seed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solscope.bench.pool.arena import (
    POISON,
    Arena,
    aligned,
    extent,
    fingerprint,
    place,
    view,
)
from solscope.bench.pool.device_memory import is_short, release
from solscope.bench.worker.messages import InputSpec, TensorInput, ValueInput
from solscope.operators.task import Draw, Task, Variant

if TYPE_CHECKING:
    import torch


HELD_BYTES = 4 << 30
"""Values of all sets are kept beside the shared memory up to here; larger ones are drawn again."""


def drawn_seed() -> int:
    """A seed that nobody can know before the run."""
    return secrets.randbits(48)


@dataclass(frozen=True)
class Repeated:
    """Row `row` of an input, counted along `dim`, written over row `to`."""

    name: str
    dim: int
    row: int
    to: int


@dataclass(frozen=True)
class _Contents:
    """What a set holds: the seed it was drawn from, and the rows that were written over."""

    seed: int
    rows: tuple[Repeated, ...] = ()


class InputSets:
    """The inputs of one shape, drawn several times into one arena."""

    def __init__(self, arena: Arena, task: Task) -> None:
        self.arena = arena
        self.task = task
        self.specs: list[InputSpec] = []
        self.seeds: list[int] = []
        self._axes: dict[str, Any] = {}
        self._variant: Variant = "typical"
        self._drawn: list[_Contents] = []
        """By set, what it holds when it is restored."""
        self._now: list[_Contents] = []
        """By set, what was written to it last."""
        self._held: dict[int, tuple[_Contents, dict[str, Any]]] = {}
        """By set, values that were made: of all sets while they are small, else of the last one."""
        self._holds_all = True
        self._set_bytes = 0
        self._prints: dict[int, tuple[_Contents, dict[str, torch.Tensor]]] = {}

    def draw(self, axes: Mapping[str, Any], count: int, variant: Variant = "typical") -> None:
        """Fill `count` sets with new values, each from its own seed."""
        seeds = [drawn_seed() for _ in range(count)]
        self._axes, self._variant = dict(axes), variant
        self._drawn = [_Contents(seed) for seed in seeds]
        self._now = list(self._drawn)
        self._held, self._prints, self.specs, self._holds_all = {}, {}, [], True
        offset = 0
        for index in range(count):
            made = self.inputs(index)
            tensors = {name: value for name, value in made.items() if _is_tensor(value)}
            size = sum(aligned(extent(tensor)) for tensor in tensors.values())
            if index == 0:
                self._set_bytes = size
                self.arena.reserve(size * count)
                self._holds_all = size * count <= HELD_BYTES
            elif offset + size > self.arena.data.numel():
                raise AssertionError("the size of the inputs depends on the seed")
            spec: InputSpec = {}
            for name, value in made.items():
                if _is_tensor(value):
                    spec[name] = place(self.arena, value, offset)
                    offset += aligned(extent(value))
                else:
                    spec[name] = ValueInput(value)
            self.specs.append(spec)
            self._print(index, made)
            del made, tensors
        self.seeds += seeds

    def inputs(self, index: int) -> dict[str, Any]:
        """The inputs of one set as they were written, in memory that no worker sees."""
        now = self._now[index]
        if not self._holds_all and (index not in self._held or self._held[index][0] != now):
            self._held.clear()  # before more memory is taken
        made = self._made(index, now)
        self._held[index] = now, made
        return dict(made)

    def _made(self, index: int, now: _Contents) -> dict[str, Any]:
        if index in self._held and self._held[index][0] == now:
            return dict(self._held[index][1])
        draw = Draw(seed=now.seed, device=self.arena.device, variant=self._variant)
        made = dict(self.task.inputs(self._axes, draw))
        for row in now.rows:
            value = made[row.name]
            value.select(row.dim, row.to).copy_(value.select(row.dim, row.row))
        return made

    def source(self, index: int) -> Callable[[], dict[str, Any]]:
        """Gives the present inputs of a set also when others were written to it."""
        now = self._now[index]
        return lambda: self._made(index, now)

    def let_go(self) -> None:
        """Free values that are so large that workers may need their memory, and what made them."""
        if self._holds_all:
            return
        self._held.clear()
        device = self.arena.device
        if is_short(device, self._set_bytes):
            release(device, keep=0)

    def tensors(self, index: int) -> dict[str, Any]:
        """The inputs of one set, as views of the shared memory, with plain values."""
        return {
            name: view(self.arena, item) if isinstance(item, TensorInput) else item.value
            for name, item in self.specs[index].items()
        }

    def changed(self, index: int) -> list[str]:
        """Inputs that a solution must leave alone and that are not what was written."""
        return self._differing(index, updated=False)

    def not_put_back(self, index: int) -> list[str]:
        """Inputs that a solution updates and that are not, or not again, what was written."""
        return self._differing(index, updated=True)

    def _differing(self, index: int, *, updated: bool) -> list[str]:
        views = self.tensors(index)
        return [
            name
            for name, before in self._prints[index][1].items()
            if (name in self.task.mutates) is updated
            and not bool((fingerprint(views[name]) == before).all())
        ]

    def repeat_rows(self, index: int, rows: Sequence[Repeated]) -> None:
        """Write rows of some inputs over other rows: a draw that differs there alone."""
        drawn = self._drawn[index]
        self._drawn[index] = _Contents(drawn.seed, (*drawn.rows, *rows))
        self._write(index, self._drawn[index])

    def restore(self, index: int) -> None:
        """Write the inputs of a set again as they were drawn, twin rows included."""
        self._write(index, self._drawn[index])

    def redraw(self, index: int, seed: int) -> None:
        """Other values for one set, at the same addresses, until it is restored."""
        self._write(index, _Contents(seed))

    def hide(self, shown: Collection[str] = ()) -> None:
        """Overwrite what `setup` may not see: floats and routes; until the sets are restored."""
        for spec in self.specs:
            for name, item in spec.items():
                if isinstance(item, TensorInput) and name not in shown and self._is_new(name, item):
                    self.arena.data[item.offset : item.offset + item.bytes].fill_(POISON)

    def _is_new(self, name: str, item: TensorInput) -> bool:
        """Whether every call of a layer has other values of it."""
        import torch

        floating = getattr(torch, item.dtype).is_floating_point
        return bool(floating) or name in self.task.unplanned

    def changes(self, index: int, skipped: Collection[str], *, inner: bool) -> list[Repeated]:
        """Rows of the inputs of a set, drawn at random, and rows to write over them.

        One row of every float input; of routes where there is no float. `inner` rows are neither
        the first nor the last, where a remembered value would be.
        """
        inputs = self.tensors(index)
        whole = self.task.whole(self.inputs(index)) if self.task.whole is not None else {}
        dims = {name: _row_dim(value) for name, value in inputs.items() if _is_float(value)}
        if not dims:
            dims = {name: _row_dim(inputs[name]) for name in self.task.unplanned}
        repeated = []
        for name, dim in dims.items():
            if dim is None or name in skipped or (dim and name in self.task.running):
                continue
            count = inputs[name].shape[dim]
            rows: Sequence[int] = whole[name].tolist() if name in whole else range(count)
            if inner and count > 3:
                rows = [row for row in rows if 0 < row < count - 1]
            if len(rows) > 1:
                to, row = secrets.SystemRandom().sample(rows, 2)
                repeated.append(Repeated(name, dim, row, to))
        return repeated

    def forget_changes(self) -> None:
        """Restore sets from now on as they were drawn, without rows that were changed."""
        self._drawn = [_Contents(drawn.seed) for drawn in self._drawn]

    def _write(self, index: int, contents: _Contents) -> None:
        """Write contents to the shared memory."""
        self._now[index] = contents
        made = self.inputs(index)
        spec = self.specs[index]
        for name, value in made.items():
            if not _is_tensor(value):
                spec[name] = ValueInput(value)
                continue
            before = spec[name]
            if not isinstance(before, TensorInput) or extent(value) != before.bytes:
                raise AssertionError(f"the size of {name} depends on the seed")
            spec[name] = place(self.arena, value, before.offset)
        self._print(index, made)

    def _print(self, index: int, made: Mapping[str, Any]) -> None:
        """Take fingerprints of what was written, from where it was written."""
        now = self._now[index]
        if self._holds_all and index in self._prints and self._prints[index][0] == now:
            return
        prints = {
            name: fingerprint(value)
            for name, value in made.items()
            if _is_tensor(value) and value.numel()
        }
        self._prints[index] = now, prints


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _is_float(value: Any) -> bool:
    return _is_tensor(value) and bool(value.is_floating_point())


def _row_dim(value: torch.Tensor) -> int | None:
    """The dimension of the rows: the first with more than one element."""
    return next((dim for dim, size in enumerate(value.shape) if size > 1), None)
