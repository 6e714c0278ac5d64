"""Decode attention over pages: the steps of all sequences are shared out evenly, and parts merged.

A step is some keys of one sequence. Every program takes the same number of steps in a row, of one
sequence or of several, so that sequences of any lengths keep all processors busy to the end. What
it has of a sequence is the result where it has all of it, else a part. It has two parts at most: of
the sequence that began before it, and of the one that ends after it. Which they are follows from
the lengths, on the device: nothing is planned on the host. Where all contexts are short, a program
has one sequence, or an even split of it, and need not look for its share.

A program takes all query heads of one key head, and a few tokens: scores are a matrix product.
"""

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634
KEYS = 128
"""Keys per step, of heads of up to 128 values."""
ROWS = 16
"""Rows of a matrix product: query heads of a key head, times tokens."""
WARPS = 4
STAGES = 3
PER_PROCESSOR = 2
"""Programs that run beside each other on a multiprocessor; one more of heads up to 64 values."""
TURNS = 2
"""Programs in place of each of those, where sequences are many."""
SHORT = 2048
"""Keys of the longest context up to which each program has one sequence."""
FEWEST, MOST = 256, 1024
"""Programs of a merge: with fewer, rows are divided, with more, they get several rows."""


@triton.jit
def steps_in(length, queried, TOKENS: tl.constexpr, KEYS: tl.constexpr):
    """Steps of a sequence: none where it has more tokens than a program takes, or none."""
    return tl.where((queried > 0) & (queried <= TOKENS), tl.cdiv(length, KEYS), 0)


@triton.jit
def steps_of(
    starts, lengths, sequences, TOKENS: tl.constexpr, KEYS: tl.constexpr, MANY: tl.constexpr
):
    """Steps of each sequence."""
    index = tl.arange(0, MANY)
    there = index < sequences
    length = tl.load(lengths + index, mask=there, other=0)
    queried = 1
    if starts is not None:
        queried = tl.load(starts + index + 1, mask=there, other=0)
        queried -= tl.load(starts + index, mask=there, other=0)
    return steps_in(length, queried, TOKENS, KEYS)


@triton.jit
def queries_of(starts, sequence):
    """The first token of a sequence, and how many it has; without `starts` each has one."""
    begin, queried = sequence, 1
    if starts is not None:
        begin = tl.load(starts + sequence)
        queried = tl.load(starts + sequence + 1) - begin
    return begin, queried


@triton.jit
def share_of(program, programs, steps, MANY: tl.constexpr):
    """The steps of a program, from first to last, and the sequence of the first of them.

    Also the steps before that sequence.
    """
    total = tl.sum(steps, 0)
    each = tl.maximum(tl.cdiv(total, programs), 1)
    first = program * each
    sequence = tl.sum((tl.cumsum(steps, 0) <= first).to(tl.int32), 0)
    before = tl.sum(tl.where(tl.arange(0, MANY) < sequence, steps, 0), 0)
    return first, tl.minimum(first + each, total), sequence, before


@triton.jit
def split_of(length, queried, split, splits, TOKENS: tl.constexpr, KEYS: tl.constexpr):
    """The steps of one of `splits` even splits of a sequence, and how many splits have any."""
    own = steps_in(length, queried, TOKENS, KEYS)
    each = tl.maximum(tl.cdiv(own, splits), 1)
    first = split * each
    return first, tl.minimum(first + each, own), tl.cdiv(own, each)


@triton.jit
def walk(
    queries,
    k,
    v,
    pages,
    first,
    last,
    position,
    best,
    total,
    result,
    scale,
    k_page,
    k_slot,
    k_dims,
    v_page,
    v_slot,
    v_dims,
    known,
    TOKENS: tl.constexpr,
    PAGE: tl.constexpr,
    KEYS: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Keys from `first` to `last`: whole steps that every token sees, or MASKED."""
    for start in range(first, last, KEYS):
        key = start + tl.arange(0, KEYS)
        slot = key % PAGE
        k_known = known[:, None]
        v_known = known[None, :]
        if MASKED:
            seen = key < last
            page = tl.load(pages + key // PAGE, mask=seen, other=0).to(tl.int64)
            k_known = k_known & seen[None, :]
            v_known = v_known & seen[:, None]
        else:
            page = tl.load(pages + key // PAGE).to(tl.int64)
        keys = tl.load(
            k + (page * k_page + slot * k_slot)[None, :] + k_dims[:, None], mask=k_known, other=0.0
        )
        scores = tl.dot(queries, keys) * scale
        if MASKED:
            visible = key[None, :] < last
            if TOKENS > 1:
                visible = visible & (key[None, :] <= position[:, None])
            scores = tl.where(visible, scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        fixed = higher
        if MASKED and TOKENS > 1:
            fixed = tl.where(higher == float("-inf"), 0.0, higher)
        shrink = tl.exp2(best - fixed)
        weights = tl.exp2(scores - fixed[:, None])
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(
            v + (page * v_page + slot * v_slot)[:, None] + v_dims[None, :], mask=v_known, other=0.0
        )
        result = tl.dot(weights.to(values.dtype), values, result * shrink[:, None])
        best = higher
    return best, total, result


@triton.jit
def settle(
    best,
    total,
    result,
    alone,
    some,
    place,
    part,
    mine,
    out,
    parts,
    sums,
    dim,
    known,
    DIM: tl.constexpr,
):
    """Write what a program has of a sequence: all if `alone`, else a part if it has `some`."""
    safe = tl.where(total > 0, total, 1.0)
    result = result / safe[:, None]
    written = mine[:, None] & known[None, :]
    if alone:
        to = out + place[:, None] * DIM + dim[None, :]
        tl.store(to, result.to(out.dtype.element_ty), mask=written)
    elif some:
        tl.store(parts + part[:, None] * DIM + dim[None, :], result, mask=written)
        lse = tl.where(total > 0, best + tl.log2(safe), float("-inf"))
        tl.store(sums + part, lse, mask=mine)


@triton.jit(do_not_specialize=["sequences"])
def attend_kernel(
    q,
    k,
    v,
    table,
    starts,
    lengths,
    out,
    parts,
    sums,
    scale,
    sequences,
    splits,
    q_row,
    q_head,
    k_page,
    k_head,
    k_slot,
    k_group,
    v_page,
    v_head,
    v_slot,
    v_dim,
    table_row,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    X: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    MANY: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """A share of the steps of all sequences or, if SPLIT, one of `splits` parts of one sequence."""
    program = tl.program_id(0)
    kv_head = tl.program_id(1)
    if SPLIT:
        sequence = program // splits
        before = 0
        split = program % splits
        length = tl.load(lengths + sequence)
        _, queried = queries_of(starts, sequence)
        first, last, busy = split_of(length, queried, split, splits, TOKENS, KEYS)
        # A sequence without keys has one step of none.
        last += ((busy == 0) & (split == 0) & (queried <= TOKENS)).to(tl.int32)
    else:
        steps = steps_of(starts, lengths, sequences, TOKENS, KEYS, MANY)
        first, last, sequence, before = share_of(program, tl.num_programs(0), steps, MANY)
    step = first

    row = tl.arange(0, ROWS)
    dim = tl.arange(0, WIDTH)
    known = dim < DIM
    token = row // GROUP
    head = kv_head * GROUP + row % GROUP
    k_dims = (dim // X) * k_group + dim % X
    v_dims = dim * v_dim
    k_here = k + kv_head.to(tl.int64) * k_head
    v_here = v + kv_head.to(tl.int64) * v_head
    while step < last:
        length = tl.load(lengths + sequence)
        begin, queried = queries_of(starts, sequence)
        own = steps_in(length, queried, TOKENS, KEYS)
        until = tl.minimum(own, last - before)
        mine = token < tl.minimum(queried, TOKENS)
        written = mine[:, None] & known[None, :]
        q_at = q + (begin + token).to(tl.int64)[:, None] * q_row + head[:, None] * q_head
        queries = tl.load(q_at + dim[None, :], mask=written, other=0.0)
        position = tl.where(mine, length - queried + token, 0)
        pages = table + sequence.to(tl.int64) * table_row

        best = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        result = tl.zeros([ROWS, WIDTH], tl.float32)
        start = (step - before) * KEYS
        stop = tl.minimum(until * KEYS, length)
        whole = tl.maximum(tl.minimum(stop, length - queried + 1) // KEYS * KEYS, start)
        best, total, result = walk(
            queries, k_here, v_here, pages, start, whole, position, best, total, result, scale,
            k_page, k_slot, k_dims, v_page, v_slot, v_dims, known, TOKENS, PAGE, KEYS, False,
        )  # fmt: skip
        best, total, result = walk(
            queries, k_here, v_here, pages, whole, stop, position, best, total, result, scale,
            k_page, k_slot, k_dims, v_page, v_slot, v_dims, known, TOKENS, PAGE, KEYS, True,
        )  # fmt: skip

        alone = (step == before) & (until == own) & ((own > 0) | SPLIT)
        part = program if SPLIT else program * 2 + (step > first).to(tl.int32)
        settle(
            best, total, result, alone, until > 0,
            (begin + token).to(tl.int64) * (tl.num_programs(1) * GROUP) + head,
            (part * tl.num_programs(1) + kv_head).to(tl.int64) * ROWS + row,
            mine, out, parts, sums, dim, known, DIM,
        )  # fmt: skip
        step = last if SPLIT else before + until
        before += own
        sequence += 1


@triton.jit(do_not_specialize=["sequences", "programs"])
def merge_kernel(
    parts,
    sums,
    starts,
    lengths,
    out,
    sequences,
    programs,
    splits,
    heads,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    MANY: tl.constexpr,
    PARTS: tl.constexpr,
    EACH: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """Rows of one sequence that several programs have parts of, or, unless SPLIT, with no keys."""
    sequence = tl.program_id(0)
    begin, queried = queries_of(starts, sequence)
    if (queried > TOKENS) | (queried == 0):
        return
    if SPLIT:
        length = tl.load(lengths + sequence)
        _, _, busy = split_of(length, queried, 0, splits, TOKENS, KEYS)
        if busy <= 1:
            return
        own, each, before = 1, 1, 0
        first = sequence * splits
        last = first + busy - 1
    else:
        steps = steps_of(starts, lengths, sequences, TOKENS, KEYS, MANY)
        index = tl.arange(0, MANY)
        before = tl.sum(tl.where(index < sequence, steps, 0), 0)
        own = tl.sum(tl.where(index == sequence, steps, 0), 0)
        each = tl.maximum(tl.cdiv(tl.sum(steps, 0), programs), 1)
        first = before // each
        last = (before + own - 1) // each
        if (own > 0) & (first == last):
            return
    dim = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    kv_heads = tl.cdiv(heads, GROUP)
    rows = queried * heads
    for place in range(tl.program_id(1) * EACH, tl.minimum(tl.program_id(1) * EACH + EACH, rows)):
        head = place % heads
        row = place // heads * GROUP + head % GROUP
        best = float("-inf")
        total = 0.0
        result = tl.zeros([WIDTH], tl.float32)
        if own > 0:
            for start in range(first, last + 1, PARTS):
                program = start + tl.arange(0, PARTS)
                there = program <= last
                part = program
                if not SPLIT:
                    part = program * 2 + (program * each < before).to(tl.int32)
                at = (part * kv_heads + head // GROUP).to(tl.int64) * ROWS + row
                lse = tl.load(sums + at, mask=there, other=float("-inf"))
                # A token may see nothing in a part; it sees itself in one of them.
                higher = tl.maximum(best, tl.max(lse, 0))
                fixed = tl.where(higher == float("-inf"), 0.0, higher)
                weights = tl.exp2(lse - fixed)
                shrink = tl.exp2(best - fixed)
                every = tl.load(
                    parts + at[:, None] * DIM + dim[None, :],
                    mask=there[:, None] & (dim < DIM)[None, :],
                    other=0.0,
                )
                result = result * shrink + tl.sum(every * weights[:, None], 0)
                total = total * shrink + tl.sum(weights, 0)
                best = higher
        result = result / tl.where(total > 0, total, 1.0)
        to = out + (begin.to(tl.int64) * heads + place) * DIM + dim
        tl.store(to, result.to(out.dtype.element_ty), mask=dim < DIM)


def processors(device: torch.device) -> int:
    """Multiprocessors of the device."""
    if device.type != "cuda":
        return 16
    return torch.cuda.get_device_properties(device).multi_processor_count


def programs_for(
    at_once: int, heads: int, sequences: int, longest: int, keys: int, *, turns: int = 1
) -> int:
    """Programs per key head (or group of heads): as many as run at once, unless steps are fewer.

    Where there are more sequences than programs, `turns` times as many: a program waits for the
    first keys of each of its sequences, and in the meantime another one can run.
    """
    if sequences * heads > at_once:
        at_once *= turns
    return max(1, min(at_once // heads, sequences * -(-longest // keys)))


def room_for_parts(
    count: int, kv_heads: int, rows: int, dim: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` parts for each key head, and the logarithms of their sums."""
    parts = torch.empty(count * kv_heads * rows, dim, dtype=torch.float32, device=device)
    return parts, torch.empty(len(parts), dtype=torch.float32, device=device)


def merge(
    parts: torch.Tensor,
    sums: torch.Tensor,
    starts: torch.Tensor | None,
    lengths: torch.Tensor,
    out: torch.Tensor,
    programs: int,
    *,
    group: int,
    tokens: int,
    rows: int,
    keys: int,
    splits: int = 0,
) -> None:
    """Write rows of `out` [tokens, heads, dim] of which programs have parts, and empty ones."""
    heads, dim = out.shape[1:]
    sequences = len(lengths)
    width, rows_out = triton.next_power_of_2(dim), sequences * tokens * heads
    while rows_out * dim < FEWEST * width and width > 32:
        width //= 2
    each = min(triton.next_power_of_2(max(rows_out // MOST, 1)), 16)
    merge_kernel[(sequences, triton.cdiv(tokens * heads, each), triton.cdiv(dim, width))](
        parts,
        sums,
        starts,
        lengths,
        out,
        sequences,
        programs,
        splits,
        heads,
        GROUP=group,
        TOKENS=tokens,
        DIM=dim,
        WIDTH=width,
        ROWS=rows,
        KEYS=keys,
        MANY=1 if splits else triton.next_power_of_2(sequences),
        PARTS=min(triton.next_power_of_2(splits or 64), 4096 // width),
        EACH=each,
        SPLIT=splits > 0,
        num_warps=4,
    )


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    table: torch.Tensor,
    starts: torch.Tensor | None,
    lengths: torch.Tensor,
    longest: int,
    scale: float,
    out: torch.Tensor,
    *,
    kv_heads: int,
    page: int,
    k_strides: tuple[int, int, int, int],
    v_strides: tuple[int, int, int, int],
    x: int,
    tokens: int = 1,
) -> None:
    """Attention of the last tokens of sequences, where they are `tokens` at most, into `out`.

    q [n, heads, dim]; strides of k by page, head, slot and group of x values; of v by dim.
    """
    if not len(lengths):
        return
    _, heads, dim = q.shape
    group = heads // kv_heads
    rows = max(ROWS, triton.next_power_of_2(group * tokens))
    width = triton.next_power_of_2(dim)
    keys = KEYS if width <= 128 else KEYS // 2
    at_once = (PER_PROCESSOR + (width <= 64)) * processors(q.device)
    splits = 0
    if longest <= SHORT:
        splits = max(1, min(-(-at_once // (len(lengths) * kv_heads)), -(-longest // keys)))
        programs = len(lengths) * splits
        room = programs if splits > 1 else 0
    else:
        programs = programs_for(at_once, kv_heads, len(lengths), longest, keys, turns=TURNS)
        room = 2 * programs
    parts, sums = room_for_parts(room, kv_heads, rows, dim, q.device)
    attend_kernel[(programs, kv_heads)](
        q,
        k,
        v,
        table,
        starts,
        lengths,
        out,
        parts,
        sums,
        scale * LOG2_E,
        len(lengths),
        splits,
        q.stride(0),
        q.stride(1),
        *k_strides,
        *v_strides,
        table.stride(0),
        GROUP=group,
        TOKENS=tokens,
        DIM=dim,
        WIDTH=width,
        X=x,
        PAGE=page,
        ROWS=rows,
        KEYS=keys,
        MANY=1 if splits else triton.next_power_of_2(len(lengths)),
        SPLIT=splits > 0,
        num_warps=WARPS,
        num_stages=STAGES,
    )
    if splits != 1:
        merge(
            parts, sums, starts, lengths, out, programs,
            group=group, tokens=tokens, rows=rows, keys=keys, splits=splits,
        )  # fmt: skip
