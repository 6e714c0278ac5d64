"""Work for several things at a time that ask workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from solscope.bench.pool.spawner import Spawner

T = TypeVar("T")
R = TypeVar("R")


def together(work: Callable[[T], R], items: Sequence[T], threads: int, spawner: Spawner) -> list[R]:
    """Do something for several at a time; an error in one, or Ctrl-C, stops them all."""
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        doing = [pool.submit(work, item) for item in items]
        try:
            for done in as_completed(doing):
                done.result()
        except BaseException:
            for future in doing:
                future.cancel()
            spawner.stop()
            raise
    return [future.result() for future in doing]
