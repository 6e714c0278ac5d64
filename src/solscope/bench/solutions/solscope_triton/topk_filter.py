"""The k-th largest by interpolation between counts, the row whole in registers.

The number of values at or above a threshold falls about exponentially with it, so that a few steps
of interpolation in its logarithm leave k values. Where they do not, as with equal values, halving
between the bits of the two nearest thresholds finds the k-th.
Where a row fits, the search begins at the smallest of the largest values of its 128 parts: each
part has a value there or above, so that no pass over the row has to find its smallest value.
Rows of a vocabulary do not fit: they are cut, the k largest of every piece are candidates, and
each piece is filtered by the k-th largest of all candidates.
"""

import torch
import triton
import triton.language as tl

WIDEST = 8192
PIECE = 2048
"""Values of a long row that one program has in its registers."""
PARTS = tl.constexpr(128)
"""Parts of a row whose largest values are the first bracket."""
REACH = tl.constexpr(9.25)
"""log2 of how many values may reach the first bracket: one part of 128 has none above it, as with
ln 128 values per part."""
STEPS = tl.constexpr(16)
"""Steps of interpolation, at most."""
MOST_CANDIDATES = 16384
"""Of the pieces of a row together."""


@triton.jit
def order_of(value):
    """Integers in the order of the floats."""
    bits = (value + 0.0).to(tl.int32, bitcast=True)  # -0.0 is 0.0
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)


@triton.jit
def value_of(order):
    """The float of an integer of `order_of`."""
    bits = order.to(tl.int32)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)


@triton.jit
def rough_log2(count):
    """Exact for powers of two, linear between them: enough to aim by."""
    bits = count.to(tl.float32).to(tl.int32, bitcast=True)
    return bits.to(tl.float32) * 1.1920929e-07 - 127.0


@triton.jit
def both_ends(low, high, count, other_low, other_high, other_count):
    return tl.minimum(low, other_low), tl.maximum(high, other_high), count + other_count


@triton.jit
def narrow(values, top_k, low, high, at_low, log_low):
    """The k-th largest between `low`, which k values reach, and the largest value, `high`.

    `at_low` is how many reach `low`, or -1, with the logarithm known or guessed in `log_low`.
    """
    wanted = rough_log2(top_k)
    log_high = -1.0  # as if half a value lay above the largest
    step = 0
    searching = at_low != top_k
    while searching:
        share = (log_low - wanted) / (log_low - log_high)
        # A guess may be wrong in either direction.
        share = tl.where(step % 3 == 2, 0.5, tl.minimum(tl.maximum(share, 0.02), 0.98))
        tried = low + (high - low) * share
        inside = (tried > low) & (tried < high)
        count = tl.sum((values >= tried).to(tl.int32), 0)
        log_count = tl.where(count > 0, rough_log2(count), -1.0)
        enough = inside & (count >= top_k)
        too_few = inside & (count < top_k)
        at_low = tl.where(enough, count, at_low)
        log_low = tl.where(enough, log_count, log_low)
        low = tl.where(enough, tried, low)
        log_high = tl.where(too_few, log_count, log_high)
        high = tl.where(too_few, tried, high)
        step += 1
        searching = inside & (at_low != top_k) & (step < STEPS)
    # Equal values, or very uneven ones: halve what is left, bit by bit.
    below = order_of(low)
    above = order_of(high) + 1
    while (at_low != top_k) & (above - below > 1):
        middle = below + (above - below) // 2
        count = tl.sum((values >= value_of(middle)).to(tl.int32), 0)
        enough = count >= top_k
        at_low = tl.where(enough, count, at_low)
        below = tl.where(enough, middle, below)
        above = tl.where(enough, above, middle)
    return value_of(below)


@triton.jit
def threshold_of(values, top_k):
    """What at least `top_k` values reach and no larger value does; -inf where fewer are finite.

    Outside of the row values are -inf.
    """
    finite = values > float("-inf")
    ends = (tl.where(finite, values, float("inf")), values, finite.to(tl.int32))
    low, high, at_low = tl.reduce(ends, 0, both_ends)
    if at_low >= top_k:
        found = narrow(values, top_k, low, high, at_low, rough_log2(at_low))
    else:
        found = tl.full([], float("-inf"), tl.float32)
    return found


@triton.jit
def threshold_of_row(values, top_k, WIDTH: tl.constexpr):
    """As `threshold_of`, from the largest values of the parts of a row."""
    largest = tl.max(tl.reshape(values, [PARTS, WIDTH // PARTS]), 1)
    low = tl.min(largest, 0)
    if (top_k > PARTS) | (low == float("-inf")):
        found = threshold_of(values, top_k)
    else:
        unknown = tl.full([], -1, tl.int32)
        guess = tl.full([], REACH, tl.float32)
        found = narrow(values, top_k, low, tl.max(largest, 0), unknown, guess)
    return found


@triton.jit(do_not_specialize=["top_k"])
def filter_kernel(logits, out, width, top_k, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    inside = column < width
    values = tl.load(logits + row * width + column, mask=inside, other=float("-inf"))
    if WIDTH >= 8 * PARTS:
        threshold = threshold_of_row(values, top_k, WIDTH)
    else:
        threshold = threshold_of(values, top_k)
    tl.store(
        out + row * width + column,
        tl.where(values >= threshold, values, float("-inf")),
        mask=inside,
    )


@triton.jit(do_not_specialize=["top_k"])
def candidates_kernel(logits, candidates, width, top_k, pieces, PIECE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1)
    column = piece * PIECE + tl.arange(0, PIECE)
    values = tl.load(logits + row * width + column, mask=column < width, other=float("-inf"))
    threshold = threshold_of(values, top_k)
    # Those above the threshold are fewer than k; of those equal to it some may be left out.
    above = values > threshold
    equal = values == threshold
    places = tl.cumsum(above.to(tl.int32) + (equal.to(tl.int32) << 16), 0)
    count = tl.sum(above.to(tl.int32), 0)
    place = tl.where(above, places & 0xFFFF, (places >> 16) + count) - 1
    target = candidates + (row * pieces + piece) * top_k + place
    tl.store(target, values, mask=(above | equal) & (place < top_k))


@triton.jit(do_not_specialize=["top_k"])
def filter_piece_kernel(
    logits, candidates, out, width, top_k, count, PIECE: tl.constexpr, COUNT: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    one = tl.arange(0, COUNT)
    best = tl.load(candidates + row * count + one, mask=one < count, other=float("-inf"))
    column = tl.program_id(1) * PIECE + tl.arange(0, PIECE)
    inside = column < width
    values = tl.load(logits + row * width + column, mask=inside, other=float("-inf"))
    kept = tl.where(values >= threshold_of(best, top_k), values, float("-inf"))
    tl.store(out + row * width + column, kept, mask=inside)


def run(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Keep what is at least the k-th largest of its row; all of it where k is not in 1 ... V."""
    rows, width = logits.shape
    if not 0 < top_k <= width:
        return logits.clone()
    out = torch.empty_like(logits)
    if width <= WIDEST:
        wide = triton.next_power_of_2(width)
        warps = max(4, wide // 1024)
        filter_kernel[(rows,)](logits, out, width, top_k, WIDTH=wide, num_warps=warps)
        return out
    pieces = triton.cdiv(width, PIECE)
    count = pieces * top_k
    if top_k > PIECE or count > MOST_CANDIDATES:
        threshold = logits.topk(top_k, dim=-1).values[:, -1:]
        return torch.where(logits >= threshold, logits, float("-inf"))
    candidates = torch.empty(rows, count, dtype=logits.dtype, device=logits.device)
    grid = (rows, pieces)
    candidates_kernel[grid](logits, candidates, width, top_k, pieces, PIECE=PIECE, num_warps=8)
    filter_piece_kernel[grid](
        logits,
        candidates,
        out,
        width,
        top_k,
        count,
        PIECE=PIECE,
        COUNT=triton.next_power_of_2(count),
        num_warps=8,
    )
    return out
