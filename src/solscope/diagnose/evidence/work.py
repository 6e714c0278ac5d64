"""Evidence about the work itself: batch, context, phases, kernels, types, call counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from solscope.diagnose.evidence.base import Answer
from solscope.diagnose.findings.findings import Findings
from solscope.diagnose.findings.pairs import Pair
from solscope.diagnose.matching.units import Side, middle_half, weights_of
from solscope.readers.packed import Observations
from solscope.text import as_percent

ROWWISE = ("norm", "activation", "rope", "sampling", "softmax")
"""Categories whose launch grid follows the number of tokens in the step."""
WIDTHS = {"fp8": 8, "int8": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32}
"""Bits of a data type in a kernel's name."""
ALLOCATING = ("alloc", "free", "host_alloc")
"""Runtime calls that allocate or free memory in the driver."""
_PRODUCT = re.compile(r"::mm$")
_ROWS = re.compile(r"\[\[(\d{1,9}),")
_ATTENTION = re.compile(r"(?i)attention|attn|mla")


def batch_differs(f: Findings) -> Answer:
    """Steps have different numbers of requests.

    They differ by at least what steps of one run differ by, and there are enough steps to tell.
    """
    unknown = ""
    for batch in f.units.batches:
        if batch.shared >= f.limits.matched_share:
            continue
        text = (
            f"{batch.phase or 'unnamed'} steps hold {batch.abnormal:g} requests "
            f"(normal {batch.normal:g}); {as_percent(batch.shared)} of the steps have a "
            "common size"
        )
        if batch.steps < f.limits.min_steps:
            unknown = f"{text}, but too few steps state theirs"
        elif abs(batch.abnormal - batch.normal) < batch.spread:
            unknown = f"{text}, but steps of one run differ by as much"
        else:
            return Answer(True, text)
    if unknown:
        return Answer(None, unknown)
    phases = {batch.phase for batch in f.units.batches}
    if all(stratum.phase in phases for stratum in f.units.common):
        return Answer(False, "steps hold the same numbers of requests")
    return _grids_scaled(f)


def _grids_scaled(f: Findings) -> Answer:
    """Launch grids of row-wise kernels, which follow the batch, all changed by one factor."""
    rows = [k for k in f.gpu.kernels if k.shared and k.category in ROWWISE and k.blocks is not None]
    pairs = [k.blocks for k in rows if k.blocks is not None and k.blocks.normal > 0]
    if len(pairs) < f.limits.row_kernels:
        return Answer(None, "the batch is unknown: no batch sizes, no launch grids")
    changed = [pair.ratio for pair in pairs if abs(pair.ratio - 1) > f.limits.grid_same]
    text = f"launch grids of {len(changed)} of {len(pairs)} row-wise kernels changed"
    if len(changed) * 2 <= len(pairs):
        return Answer(False, text)
    middle = sorted(changed)[len(changed) // 2]
    alike = [ratio for ratio in changed if abs(ratio / middle - 1) <= f.limits.unit_spread]
    if len(alike) * 2 <= len(pairs):
        return Answer(None, f"{text}, by unlike factors: the kernels do other work per row")
    return _if_enough_steps(f, text)


def _if_enough_steps(f: Findings, text: str) -> Answer:
    """What recorded shapes show of the work, where steps are enough and the model is the same."""
    if not any(stratum.tested for stratum in f.units.common):
        return Answer(None, f"{text}, but there are too few steps to tell")
    if other := _other_weights(f):
        return Answer(None, f"{text}, but {other}")
    return Answer(True, text)


def _other_weights(f: Findings) -> str:
    """That each run multiplies with weights which the other has not: not quite the same model."""
    weights = [weights_of(run) for run in (f.normal, f.abnormal)]
    own = [sorted(weights[0] - weights[1]), sorted(weights[1] - weights[0])]
    return f"the models differ: weights {own[0][0]} against {own[1][0]}" if all(own) else ""


def context_in_shapes(f: Findings) -> Answer:
    """Attention with the same queries reads longer or shorter keys.

    Contexts grow from step to step, so that runs of the same requests hardly ever have the same
    set of lengths: what counts is the mean, and it must differ by at least what calls of one run
    differ by.
    """
    sides = [_attention_shapes(run) for run in (f.normal, f.abnormal)]
    answers = [
        _context(f, name, query, (keys, sides[1][name][query]))
        for name in sides[0]
        for query, keys in sides[0][name].items()
        if query in sides[1].get(name, {})
    ]
    for wanted in (True, None, False):
        for answer in answers:
            if answer.holds is wanted:
                return answer
    return Answer(None, "no shapes of attention are recorded")


def _context(f: Findings, name: str, query: str, keys: tuple[Counter[str], Counter[str]]) -> Answer:
    """Whether keys of the same queries are longer or shorter."""
    text = f"{name}: queries {query}, keys {_short(keys[0])} → {_short(keys[1])}"
    lengths = _lengths(query, keys)
    if lengths is None:
        return Answer(None, f"{text}, which need not be other lengths")
    moved = _moved(f, *lengths)
    if moved is False:
        return Answer(False, "attention has keys of about the same length")
    if moved is None:
        return Answer(None, f"{text}, but lengths in one run differ by as much")
    return _if_enough_steps(f, text)


def _moved(f: Findings, normal: Counter[int], abnormal: Counter[int]) -> bool | None:
    """Whether sizes differ in the mean; null where those of one run differ by as much."""
    before, after = (_mean(side) for side in (normal, abnormal))
    apart = abs(after - before)
    if apart <= f.limits.kernel_grew * before:
        return False
    return True if apart >= max(middle_half(side) for side in (normal, abnormal)) else None


def _mean(sizes: Counter[int]) -> float:
    return sum(size * count for size, count in sizes.items()) / max(1, sizes.total())


def _lengths(query: str, keys: Iterable[Mapping[str, int]]) -> list[Counter[int]] | None:
    """Lengths of keys, by launches; null where their shapes do not tell which dimension that is.

    It is the only one in which keys differ, or are larger than the queries: they are at least as
    many, and have at most as many heads.
    """
    most = _dimensions(query)
    sides = [_by_dimensions(side) for side in keys]
    shapes = {shape for side in sides for shape in side}
    if not most or any(len(shape) != len(most) for shape in shapes):
        return None
    columns = list(zip(*shapes, strict=True))
    lengths = {
        at for at, column in enumerate(columns) if len(set(column)) > 1 or max(column) > most[at]
    }
    if len(lengths) > 1 or any(min(columns[at]) < most[at] for at in lengths):
        return None
    at = next(iter(lengths), 0)
    out = []
    for side in sides:
        of_side: Counter[int] = Counter()
        for shape, count in side.items():
            of_side[shape[at]] += count
        out.append(of_side)
    return out


def _by_dimensions(shapes: Mapping[str, int]) -> Counter[tuple[int, ...]]:
    counts: Counter[tuple[int, ...]] = Counter()
    for text, count in shapes.items():
        counts[_dimensions(text)] += count
    return counts


def _dimensions(shape: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", shape)))


def _short(shapes: Iterable[str]) -> str:
    return ", ".join(sorted(shapes)[:2])


def _attention_shapes(run: Observations) -> dict[str, dict[str, Counter[str]]]:
    """By operator: shape of the queries, and the shapes of the keys with them, by launches."""
    out: dict[str, dict[str, Counter[str]]] = {}
    for op in run.host_ops:
        if not _ATTENTION.search(op.name):
            continue
        for text, launches in op.shapes.items():
            # Long lists are cut when they are kept: the first two inputs are enough.
            match = re.match(r"\[(\[[\d,]*\]),(\[[\d,]*\])", text)
            if match:
                of_query = out.setdefault(op.name, {}).setdefault(match[1], Counter())
                of_query[match[2]] += launches
    return out


def attention_alone(f: Findings) -> Answer:
    """Attention takes longer (or shorter) per call, with the same kernel and grid; nothing else."""
    attention = f.gpu.per_call_ratio("attention", "linear_attention", same_grid=True)
    rest = f.gpu.per_call_ratio("gemm", "norm", "activation", "moe", "rope")
    if attention is None or rest is None:
        return Answer(None, "no attention kernels in common")
    text = f"attention takes ×{attention:.2f} per call, products and norms ×{rest:.2f}"
    moved = abs(attention - 1) > f.limits.kernel_grew
    total = f.gpu.kernel_time()
    attention_share = (
        f.gpu.kernel_time("attention", "linear_attention").delta / total.delta if total.delta else 0
    )
    alone = abs(rest - 1) <= f.limits.kernel_same and attention_share >= f.limits.attention_alone
    return Answer(moved and alone, text)


def context_same(f: Findings) -> Answer:
    """Recorded shapes show keys of about the same length."""
    context = context_in_shapes(f)
    replayed = max(run.run.graph_share_pct for run in (f.normal, f.abnormal))
    if replayed >= f.limits.graph_share_pct:
        return Answer(None, "graph replays hide shapes of attention")
    return Answer(None if context.holds is None else not context.holds, context.text)


def mix_differs(f: Findings) -> Answer:
    """Phases occur more or less often, by more than in two halves of one run."""
    moved = [(phase, f.units.mix[phase]) for phase in f.units.moved]
    text = ", ".join(
        f"{phase or 'unnamed'} steps {as_percent(share.normal)} → {as_percent(share.abnormal)}"
        for phase, share in moved
    )
    if not moved:
        return Answer(False, "phases occur as often as before")
    if not any(share.shift > share.within for _, share in moved):
        return Answer(None, f"{text}, but halves of one run differ by as much")
    steps = min(f.units.normal.fit.size, f.units.abnormal.fit.size)
    if steps < 2 * f.limits.min_steps:
        return Answer(None, f"{text}, but halves of {steps} steps are too few to tell")
    return Answer(True, text)


def prompts_differ(f: Findings) -> Answer:
    """Prefill runs over other numbers of tokens, while decode steps keep their batch."""
    rows = [_product_rows(run) for run in (f.normal, f.abnormal)]
    if not all(rows):
        return Answer(None, "no shapes of matrix products are recorded")
    replays = f.host.calls("graph_launch", alike=True)
    if abs(replays.delta) > f.limits.graph_launches * max(replays.normal, replays.abnormal):
        return Answer(None, "graph replays hide the shapes of other products in each run")
    common = set(rows[0]) & set(rows[1])
    batch = max([min(common, default=0), *_decode_batches(f)])
    prompts = [Counter({n: count for n, count in side.items() if n > batch}) for side in rows]
    same = Answer(False, "matrix products have about the same numbers of rows")
    if not common or not all(prompts):
        return same
    moved = _moved(f, *prompts)
    if moved is False:
        return same
    most = [side.most_common(1)[0][0] for side in prompts]
    text = f"tokens of a prefill {most[0]} → {most[1]} (rows of matrix products)"
    if moved is None:
        return Answer(None, f"{text}, but prefills of one run differ by as much")
    if min(_prefills(side) for side in (f.units.normal, f.units.abnormal)) < f.limits.min_steps:
        return Answer(None, f"{text}, but too few steps are known to prefill")
    return _if_enough_steps(f, text)


def _prefills(side: Side) -> int:
    """Fit steps that are known to hold a prefill."""
    return sum(side.run.steps[i].phase in ("prefill", "mixed") for i in side.fit.tolist())


def _decode_batches(f: Findings) -> set[int]:
    """Numbers of requests that decode steps state."""
    steps = [step for run in (f.normal, f.abnormal) for step in run.steps]
    return {s.requests for s in steps if s.phase == "decode" and s.requests is not None}


def _product_rows(run: Observations) -> Counter[int]:
    """Rows of the first matrix of products, by launches: tokens that went through together."""
    rows: Counter[int] = Counter()
    for op in run.host_ops:
        for text, launches in op.shapes.items():
            if _PRODUCT.search(op.name) and (match := _ROWS.match(text)):
                rows[int(match[1])] += launches
    return rows


def kernel_set_changed(f: Findings) -> Answer:
    """Kernels appeared or vanished."""
    time = f.gpu.kernel_time()
    if not time.normal or not time.abnormal:
        return Answer(None, "no kernels")
    new, lost = f.gpu.new_kernel_ms / time.abnormal, f.gpu.lost_kernel_ms / time.normal
    names = [
        k.name for k in sorted(f.gpu.kernels, key=lambda k: -k.ms.abnormal) if not k.calls.normal
    ]
    gone = [
        k.name for k in sorted(f.gpu.kernels, key=lambda k: -k.ms.normal) if not k.calls.abnormal
    ]
    text = f"{as_percent(new)} of the GPU time is in new kernels, "
    text += f"{as_percent(lost)} was in kernels now gone"
    text += f" (new: {names[0][:60]})" if names else ""
    text += f" (gone: {gone[0][:60]})" if gone else ""
    return Answer(max(new, lost) >= f.limits.set_changed, text)


def dtype_differs(f: Findings) -> Answer:
    """Matrix products moved to another data type; for a slower run, not to a narrower one."""
    calls: dict[str, Pair] = {}
    for kernel in f.gpu.kernels:
        if kernel.category in ("gemm", "moe") and kernel.dtype is not None:
            before = calls.get(kernel.dtype, Pair(0.0, 0.0))
            calls[kernel.dtype] = Pair(
                before.normal + kernel.calls.normal, before.abnormal + kernel.calls.abnormal
            )
    if not calls:
        return Answer(None, "names of matrix products have no data type")
    lost = min(calls, key=lambda dtype: calls[dtype].delta)
    won = max(calls, key=lambda dtype: calls[dtype].delta)
    fell, rose = -calls[lost].delta, calls[won].delta
    limits = f.limits
    few = fell < limits.dtype_calls or fell < limits.dtype_moved * calls[lost].normal
    if few or rose < f.limits.most * fell:
        return Answer(False, "matrix products have the same data types")
    if f.delta_ms > 0 and WIDTHS[won] < WIDTHS[lost]:
        return Answer(False, f"matrix products moved to a narrower type: {lost} to {won}")
    text = (
        f"matrix products per step: {lost} {calls[lost].normal:.0f} → {calls[lost].abnormal:.0f}, "
        f"{won} {calls[won].normal:.0f} → {calls[won].abnormal:.0f}"
    )
    return Answer(True, text)


def graphs_lost(f: Findings) -> Answer:
    """Work that a graph replayed is launched kernel by kernel."""
    share = Pair(f.normal.run.graph_share_pct, f.abnormal.run.graph_share_pct)
    launches, graphs = f.host.calls("launch", alike=True), f.host.calls("graph_launch", alike=True)
    text = (
        f"{share.abnormal:.0f} % of the GPU time comes from graph replays (normal "
        f"{share.normal:.0f} %); {launches.abnormal:.0f} launches per step ({launches.normal:.0f})"
    )
    fell = share.delta <= -f.limits.graph_share_pct and graphs.ratio <= 1 - f.limits.graph_launches
    return Answer(fell and launches.delta > 0, text)


def more_launches(f: Findings) -> Answer:
    """More kernels are launched one by one."""
    launches = f.host.calls("launch")
    text = f"{launches.abnormal:.0f} kernel launches per step (normal {launches.normal:.0f})"
    grew = launches.ratio >= 1 + f.limits.launches_grew and launches.delta >= f.limits.launches_more
    return Answer(grew, text)


def more_syncs(f: Findings) -> Answer:
    """The host waits for the GPU more often."""
    syncs = f.host.calls("sync")
    text = f"{syncs.abnormal:.1f} synchronizing calls per step (normal {syncs.normal:.1f})"
    return Answer(f.host.more_calls("sync") or waits_in(f, "sync", "sync"), text)


def more_allocations(f: Findings) -> Answer:
    """Memory is allocated or freed in the driver more often."""
    calls = f.host.calls(*ALLOCATING)
    text = f"{calls.abnormal:.1f} allocating calls per step (normal {calls.normal:.1f})"
    return Answer(f.host.more_calls(*ALLOCATING) or waits_in(f, "alloc", *ALLOCATING), text)


def waits_in(f: Findings, family: str, *kinds: str) -> bool:
    """Whether calls that became more frequent, if seldom, hold a relevant part of the difference.

    A few calls that the GPU waits for long count by that time, and not by their number.
    """
    calls, limits = f.host.calls(*kinds), f.limits
    grew = calls.delta > 0 and calls.ratio >= 1 + limits.calls_grew
    surely = any(
        c.family == family and c.state == "changed" and c.delta_ms > 0 for c in f.parts.components
    )
    return grew and surely and f.delta_ms > 0 and f.share(family) >= limits.part


def syncs_of_allocations(f: Findings) -> Answer:
    """Memory is allocated or freed in the driver more often, which accounts for more syncs."""
    more = more_allocations(f)
    syncs, calls = f.host.calls("sync"), f.host.calls("alloc", "free", "host_alloc")
    beyond = syncs.delta > calls.delta and f.share("sync") >= f.limits.part
    return Answer(bool(more.holds) and not beyond, more.text)


def more_pageable(f: Findings) -> Answer:
    """More bytes are copied from or to memory that is not pinned."""
    sizes = [_pageable_bytes(run) for run in (f.normal, f.abnormal)]
    text = f"{sizes[1] / 1e6:.2f} MB per step are copied unpinned (normal {sizes[0] / 1e6:.2f})"
    grew = (
        sizes[1] - sizes[0] >= f.limits.io_bytes
        and sizes[1] >= (1 + f.limits.unpinned_grew) * sizes[0]
    )
    return Answer(grew, text)


def _pageable_bytes(run: Observations) -> float:
    size = sum(
        k.bytes for k in run.kernels if k.category == "memcpy" and "pageable" in k.name.lower()
    )
    return size / max(1, len(run.steps))
