"""Jobs on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from solscope.cores import cores
from solscope.spawning import without_main

J = TypeVar("J")
R = TypeVar("R")


def on_all_cores(function: Callable[[J], R], jobs: Sequence[J], least: int = 2) -> Iterator[R]:
    """Results of `function` for each job, in order, from as many processes as there are cores.

    Fewer jobs than `least` are not worth the start of processes and are done in this one.
    """
    workers = min(len(jobs), cores())
    if workers < 2 or len(jobs) < least:
        yield from map(function, jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            with without_main():
                results = pool.map(function, jobs)
            yield from results
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
