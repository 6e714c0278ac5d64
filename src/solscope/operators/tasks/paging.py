"""Paged caches as a server has them after a while: blocks in random order, stale data around them.

A sequence's token j lies in block `table[i, j // size]`, slot j % size. Entries of the table behind
the last used block hold numbers of other blocks, as tables that are reused do, and slots that hold
no token of a sequence are filled with large values: reading either as data shows in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solscope.operators.cost import blocks
from solscope.operators.task import Inputs

if TYPE_CHECKING:
    import torch

STALE = 1e4
"""What unused slots of values hold; finite in fp16, and no attention weight hides it."""
STALE_KEY = 16.0
"""What unused slots of keys hold. In every dimension, it makes a score that outweighs all true ones
for about half of the queries, so that reading it shows. But it must not come near what kernels
mask with, where that is finite: torch adds -65,504 for cuDNN, FlashInfer gives a score of -50,000.
That is right for all that a server computes."""
BATCH_KEYS = 1 << 18
"""Keys that references gather at a time."""


@dataclass(frozen=True)
class Pages:
    """Positions of the tokens of a batch in a pool of blocks."""

    table: torch.Tensor
    """int32 [sequences, most blocks of one]."""
    used: torch.Tensor
    """int64 [blocks]: tokens in each block of the pool, 0 in blocks of nobody."""
    size: int
    """Tokens per block."""

    def slot(self, sequence: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Flat slot in the pool of a token of a sequence."""
        block = self.table[sequence, position // self.size].long()
        return block * self.size + position % self.size

    def unused(self) -> torch.Tensor:
        """bool [blocks, size]: slots without a token."""
        import torch

        return torch.arange(self.size, device=self.used.device) >= self.used[:, None]


def pages(
    generator: torch.Generator, lengths: torch.Tensor, groups: Sequence[tuple[int, int]], size: int
) -> Pages:
    """Scatter sequences over a pool with an eighth of spare blocks, at least four.

    `groups` has the same lengths as (length, count), known without a look at the device.
    """
    import torch

    device = lengths.device
    total = sum(blocks(length, size) * count for length, count in groups)
    width = max([blocks(length, size) for length, _ in groups], default=0)
    pool = total + max(4, total // 8)
    order = torch.randperm(pool, generator=generator, device=device)
    count = (lengths.long() + size - 1) // size
    index = torch.arange(max(1, width), device=device)
    mine = index < count[:, None]
    stale = torch.randint(pool, mine.shape, generator=generator, device=device)
    first = count.cumsum(0) - count
    table = torch.where(mine, order[(first[:, None] + index).clamp_max(pool - 1)], stale)
    filled = (lengths.long()[:, None] - index * size).clamp(0, size)
    used = torch.zeros(pool + 1, dtype=torch.int64, device=device)
    used.scatter_(0, torch.where(mine, table, pool).flatten(), filled.flatten())
    return Pages(table.to(torch.int32), used[:pool], size)


def whole_blocks(
    caches: str, *, table: str, lengths: str, size_dim: int
) -> Callable[[Inputs], Mapping[str, torch.Tensor]]:
    """`whole` of a task with paged `caches`: the blocks in which every slot holds a token.

    `table` and `lengths` are the inputs that say which those are; a cache has the slots of a block
    along dimension `size_dim`.
    """
    names = caches.split()

    def whole(inputs: Inputs) -> Mapping[str, torch.Tensor]:
        import torch

        blocks_of, size = inputs[table], inputs[names[-1]].shape[size_dim]
        column = torch.arange(blocks_of.shape[1], device=blocks_of.device)
        filled = blocks_of[column < (inputs[lengths] // size)[:, None]].long()
        return dict.fromkeys(names, filled)

    return whole


def shuffled_lengths(
    generator: torch.Generator, groups: Sequence[Sequence[int]]
) -> tuple[torch.Tensor, ...]:
    """Groups of [length, ..., count] written out in random order: one int32 tensor per length."""
    import torch

    device = generator.device
    columns = torch.tensor([list(group) for group in groups], device=device).reshape(
        len(groups), -1
    )
    sequences = sum(group[-1] for group in groups)
    which = torch.arange(len(groups), device=device)
    rows = torch.repeat_interleave(which, columns[:, -1], output_size=sequences)
    rows = rows[torch.randperm(sequences, generator=generator, device=device)]
    return tuple(columns[rows, column].to(torch.int32) for column in range(columns.shape[1] - 1))


def offsets(lengths: torch.Tensor) -> torch.Tensor:
    """int32 [n + 1]: where each sequence starts, and the end."""
    import torch

    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)


def similar(lengths: torch.Tensor) -> list[tuple[torch.Tensor, int]]:
    """Sequences to work on together, padded to the length that comes with them: the long apart."""
    ordered, order = lengths.long().sort()
    batches, start, sizes = [], 0, ordered.tolist()
    while start < len(sizes):
        end = start + 1
        while end < len(sizes) and (end + 1 - start) * sizes[end] <= BATCH_KEYS:
            end += 1
        batches.append((order[start:end], sizes[end - 1]))
        start = end
    return batches
