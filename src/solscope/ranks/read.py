"""Reading the ranks of a run: in processes of their own, each reduced to compact tables at once.

How many are read at a time is limited by the cores and by `MEMORY_BYTES`: a process needs some
multiple of the trace that it reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import msgspec
import polars as pl

from solscope import demo
from solscope.attribution import Attributed
from solscope.attribution.classify import load_rules
from solscope.attribution.opening import open_attributed
from solscope.cache import background
from solscope.cores import cores
from solscope.errors import InputError, SolscopeError
from solscope.profile import Metadata, ProcessGroup, ProfileWarning
from solscope.ranks.facts import rank_facts
from solscope.ranks.files import one_per_rank
from solscope.ranks.find import host_in_name, number_ranks, run_files, run_name, stated_rank
from solscope.readers import ReadOptions
from solscope.readers.find import Skipped
from solscope.readers.limits import MAX_RANKS
from solscope.run import Rank, Run, listed
from solscope.spawning import without_main

MEMORY_BYTES = 3 << 30
"""What all processes together may need."""
PER_PROCESS_BYTES, PER_FILE_BYTE = 220 << 20, 4
"""What a process needs to start, and for each byte of a trace as JSON: estimates."""
COMPRESSED = 14
"""How much smaller compressed traces are."""
SMALL_BYTES = 24 << 20
"""Traces that are smaller together are read in this process."""
TRUNCATED = "truncated"
"""The warning about a file that breaks off."""

Progress = Callable[[int, int, str], None]
"""Called with the ranks that are done, all ranks, and the file that was read last."""


T = TypeVar("T")
View = Callable[[Attributed], T]
"""What is made of the profile of one rank where it is read; a function of a module, so that it can
pass to another process."""


def open_run(
    *inputs: str | os.PathLike[str],
    rules: Sequence[Path] = (),
    options: ReadOptions | None = None,
    progress: Progress | None = None,
    skipped: Skipped | None = None,
    processes: int | None = None,
) -> Run:
    """Open the ranks of one run: a folder, files, a glob, or one file that merges several ranks.

    Each rank is reduced to its collectives, steps and kernel times (`solscope.run`); ranks are read
    in several processes where that is worth their start.
    """
    run, _ = read_run(
        inputs,
        None,
        rules=rules,
        options=options,
        progress=progress,
        skipped=skipped,
        processes=processes,
    )
    return run


def read_run(
    inputs: Iterable[str | os.PathLike[str]],
    view: View[T] | None,
    *,
    rules: Sequence[Path] = (),
    options: ReadOptions | None = None,
    progress: Progress | None = None,
    skipped: Skipped | None = None,
    processes: int | None = None,
) -> tuple[Run, dict[int, T]]:
    """Open a run, and make `view` of each rank's profile while it is at hand, by rank.

    A profile is dropped before the next one is read in the same process, so memory does not grow
    with the number of ranks.
    """
    left_out: dict[str, str] = {}
    paths, others = _files(inputs, left_out)
    # A callback cannot pass to another process.
    quiet = replace(options or ReadOptions(), progress=None)
    read = partial(_read, rules=tuple(rules), options=quiet, view=view)
    done: dict[str, tuple[list[Rank], T | None]] = {}
    errors: dict[str, SolscopeError] = {}

    def take(path: str, result: _Found[T] | SolscopeError) -> None:
        left_out.pop(path, None)
        if isinstance(result, SolscopeError):
            errors[path] = result
            left_out[path] = str(result).removeprefix(f"{path}: ")
        else:
            done[path] = result
        if progress is not None:
            count = len(done) + len(errors)
            progress(count, max(count, len(paths)), path)

    for path, result in _read_all(paths, read, processes):
        take(path, result)
    for path in [path for path in paths if path in errors or _breaks_off(done[path][0])]:
        for other in others.get(path, ()):
            take(other, _found_or_error(read, other))
            if other not in done:
                continue
            if path in errors:
                break
            if _is_whole_copy(done[other][0], done[path][0]):
                del done[path]
                left_out[path] = f"breaks off; {other} is read instead"
                break
            del done[other]
            left_out[other] = f"{path} is read instead, though it breaks off"
    if not done:
        raise next(iter(errors.values()))
    for path, reason in left_out.items():
        if skipped is not None:
            skipped(path, reason)
    used = [*(path for path in paths if path in done), *(done.keys() - {*paths})]
    run = make_run(run_name(paths), [rank for path in used for rank in done[path][0]])
    notes = [
        ProfileWarning("file_left_out", f"left out {path}: {left_out[path]}") for path in left_out
    ]
    run = replace(run, warnings=(*notes, *_truncated(run.ranks), *run.warnings))
    # By the path of the rank, which is written in another way than one that was given as `./a`.
    value_of = {rank.path: value for ranks, value in done.values() for rank in ranks}
    made = {rank.rank: value_of[rank.path] for rank in run.ranks}
    return run, {rank: value for rank, value in made.items() if value is not None}


def _breaks_off(ranks: Iterable[Rank]) -> bool:
    return any(warning.code == TRUNCATED for rank in ranks for warning in rank.warnings)


def _is_whole_copy(ranks: Sequence[Rank], cut: Sequence[Rank]) -> bool:
    """Does a file that does not break off hold the same recording as one that does?

    A recording of another run, or of another time, would not fit to the other ranks.
    """
    worlds = [{(rank.rank, rank.metadata.world_size) for rank in side} for side in (ranks, cut)]
    if _breaks_off(ranks) or worlds[0] != worlds[1]:
        return False
    whole_ns, cut_ns = _span_ns(ranks), _span_ns(cut)
    if whole_ns is None or cut_ns is None:
        return False
    return whole_ns[0] <= cut_ns[0] and cut_ns[1] <= whole_ns[1]


def _span_ns(ranks: Sequence[Rank]) -> tuple[int, int] | None:
    """From the first to the last collective or step, by the clock of the recording."""
    tables = [
        table.select(pl.col("start_ns", "end_ns") + (rank.metadata.unix_offset_ns or 0))
        for rank in ranks
        for table in (rank.calls, rank.steps)
    ]
    bounds = pl.concat(tables).drop_nulls()
    if bounds.is_empty():
        return None
    return int(bounds["start_ns"].to_numpy().min()), int(bounds["end_ns"].to_numpy().max())


def _truncated(ranks: Iterable[Rank]) -> Iterator[ProfileWarning]:
    """What the files that break off say, with their ranks: one file may merge several."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for rank in ranks:
        for warning in rank.warnings:
            if warning.code == TRUNCATED:
                numbers.setdefault((rank.path, warning.message), []).append(rank.rank)
    for (_, message), file_ranks in numbers.items():
        who = "rank" if len(file_ranks) == 1 else "ranks"
        yield ProfileWarning(TRUNCATED, f"{who} {listed(file_ranks)}: {message}")


def _files(
    inputs: Iterable[str | os.PathLike[str]], left_out: dict[str, str]
) -> tuple[list[str], dict[str, list[str]]]:
    """The files of a run, one for each rank where they say which they are.

    With other recordings by the file that was chosen, for when that one cannot be used.
    """

    def skip(path: str, reason: str) -> None:
        left_out[path] = reason.removeprefix(f"{path}: ")

    paths = run_files(inputs, skip)
    if not paths:
        raise InputError("no profile was given")
    chosen = one_per_rank(paths, [_stated(path) for path in paths])
    if chosen is None:
        return paths, {}
    others: dict[str, list[str]] = {}
    for path, reason, instead in chosen.left_out:
        left_out[path] = reason
        if instead is not None:
            others.setdefault(instead, []).append(path)
    return chosen.paths, others


def _stated(path: str) -> int | None:
    """The rank that a file states; null for one that cannot be read, which is said later."""
    if not Path(path).exists() and not path.startswith(demo.PREFIX):
        raise InputError(f"{path}: no such file")
    try:
        return stated_rank(path)
    except SolscopeError:
        return None


def make_run(name: str, ranks: Sequence[Rank]) -> Run:
    """A run of these ranks; they are numbered here where their files do not say which they are."""
    warnings = []
    merged = len({rank.path for rank in ranks}) < len(ranks)
    if not merged:
        stated = [rank.rank if rank.rank >= 0 else None for rank in ranks]
        numbers, counted = number_ranks([rank.path for rank in ranks], stated)
        ranks = [replace(rank, rank=n) for rank, n in zip(ranks, numbers, strict=True)]
        if counted and len(ranks) > 1:
            text = "the files do not say which ranks they are: counted in the order of their names"
            warnings.append(ProfileWarning("ranks_counted", text))
    ordered = sorted(ranks, key=lambda rank: rank.rank)
    for first, other in pairwise(ordered):
        if first.rank == other.rank:
            raise InputError(
                f"two files for rank {first.rank}: {first.path} and {other.path}; "
                "name the files of one run, as a folder or a glob"
            )
    _check_numbers(ordered)
    sizes = {rank.metadata.world_size for rank in ordered if rank.metadata.world_size}
    size = max(sizes, default=None)
    if len(sizes) > 1:
        text = f"the files state different numbers of ranks: {listed(sorted(sizes))}"
        warnings.append(ProfileWarning("world_size", text))
    if size is None and len(ordered) > 1:
        size = max(len(ordered), ordered[-1].rank + 1)
    run = Run(name, size, tuple(ordered), _groups(ordered), tuple(warnings))
    if run.missing:
        verb = "is" if len(run.missing) == 1 else "are"
        many = "rank" if len(run.missing) == 1 else "ranks"
        them = "it" if len(run.missing) == 1 else "them"
        text = (
            f"{many} {listed(run.missing)} of {size} {verb} missing: waiting for {them} is not seen"
        )
        run = replace(run, warnings=(*run.warnings, ProfileWarning("ranks_missing", text)))
    return run


def _check_numbers(ranks: Sequence[Rank]) -> None:
    """Refuse numbers that no run has, before anything is counted up to them."""
    for rank in ranks:
        size = rank.metadata.world_size or 0
        if rank.rank >= MAX_RANKS:
            raise InputError(
                f"{rank.path}: rank {rank.rank} is too large; ranks must be below {MAX_RANKS:,}"
            )
        if size > MAX_RANKS:
            raise InputError(f"{rank.path}: {size} ranks are too many; at most {MAX_RANKS:,}")


def _groups(ranks: Sequence[Rank]) -> tuple[ProcessGroup, ...]:
    """Process groups, from the headers; each once."""
    return tuple(dict.fromkeys(group for rank in ranks for group in rank.metadata.groups))


_Found = tuple[list[Rank], T | None]


def _read_all(
    paths: Sequence[str], read: Callable[[str], _Found[T]], processes: int | None
) -> Iterator[tuple[str, _Found[T] | SolscopeError]]:
    """Ranks by file, as they are done; the error of a file that cannot be read."""
    job: Callable[[str], _Found[T] | SolscopeError] = partial(_found_or_error, read)
    sizes = [_json_bytes(path) for path in paths]
    workers = _workers(sizes) if processes is None else processes
    if workers < 2 or len(paths) < 2 or (processes is None and sum(sizes) < SMALL_BYTES):
        for path in paths:
            yield path, job(path)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(paths)), mp_context=context) as pool:
        with without_main():
            waiting = {pool.submit(job, path): path for path in paths}
        try:
            for future in as_completed(waiting):
                result = future.result()
                yield waiting.pop(future), result
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _json_bytes(path: str) -> int:
    """About how large a trace is as JSON."""
    file = Path(path)
    if not file.is_file():
        return 0
    size = file.stat().st_size
    return size * COMPRESSED if file.suffix in (".gz", ".zst", ".xz") else size


def _workers(sizes: Sequence[int]) -> int:
    """How many ranks may be read at a time."""
    need = PER_PROCESS_BYTES + PER_FILE_BYTE * max(sizes, default=0)
    return max(1, min(cores(), MEMORY_BYTES // max(1, need)))


def _read(
    path: str, rules: tuple[Path, ...], options: ReadOptions, view: View[T] | None
) -> _Found[T]:
    attributed = open_attributed(path, options=options, rules=load_rules(rules))
    profile = attributed.profile
    if attributed.activities.is_empty() and any(w.code == TRUNCATED for w in profile.warnings):
        background.wait()
        raise InputError(f"{path}: the file is cut off or damaged before any GPU activity")
    stated = profile.metadata.rank
    facts = rank_facts(attributed, -1 if stated is None else stated)
    made = None if view is None else view(attributed)
    # What is written to the cache holds the whole profile in memory.
    background.wait()
    return [replace(rank, metadata=_with_host(rank.metadata, path)) for rank in facts], made


def _with_host(metadata: Metadata, path: str) -> Metadata:
    host = metadata.host or host_in_name(path)
    return msgspec.structs.replace(metadata, host=host)


def _found_or_error(read: Callable[[str], _Found[T]], path: str) -> _Found[T] | SolscopeError:
    """Errors of ours as values: they pass from process to process whole."""
    try:
        return read(path)
    except SolscopeError as error:
        return error
