"""The k-th largest by bisection on ordered bits, the row whole in registers.

Between the smallest and the largest of the row, and no further than k values are left.
Rows of a vocabulary do not fit: for them torch.topk finds the threshold.
"""

import torch
import triton
import triton.language as tl

WIDEST = 8192


@triton.jit
def filter_kernel(logits, out, width, top_k, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    inside = column < width
    values = tl.load(logits + row * width + column, mask=inside, other=float("-inf"))
    # integers in the order of the floats, the smallest for what lies outside
    bits = (values + 0.0).to(tl.int32, bitcast=True)  # -0.0 is 0.0
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    ordered = tl.where(inside, ordered, -2147483648)
    # a threshold that exactly top_k values reach, or the largest that more of them do
    low = tl.min(tl.where(inside, ordered, 2147483647), 0).to(tl.int64)
    high = tl.max(ordered, 0).to(tl.int64) + 1
    reached = width
    while (reached != top_k) & (high - low > 1):
        middle = low + (high - low) // 2
        count = tl.sum((ordered >= middle.to(tl.int32)).to(tl.int32), 0)
        enough = count >= top_k
        reached = tl.where(enough, count, reached)
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    kept = tl.where(ordered >= low.to(tl.int32), values, float("-inf"))
    tl.store(out + row * width + column, kept, mask=inside)


def run(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Keep what is at least the k-th largest of its row."""
    rows, width = logits.shape
    if width > WIDEST:
        threshold = logits.topk(top_k, dim=-1).values[:, -1:]
        return torch.where(logits >= threshold, logits, float("-inf"))
    out = torch.empty_like(logits)
    wide = triton.next_power_of_2(width)
    filter_kernel[(rows,)](logits, out, width, top_k, WIDTH=wide, num_warps=max(4, wide // 1024))
    return out
