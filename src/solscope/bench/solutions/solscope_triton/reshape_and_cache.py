"""One program per token copies its key and its value to their slot."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(key, value, key_cache, value_cache, slots, width, WIDTH: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = column < width
    # All three loads are on their way before the first is needed.
    slot = tl.load(slots + token)
    keys = tl.load(key + token * width + column, mask=inside)
    values = tl.load(value + token * width + column, mask=inside)
    written = inside & (slot >= 0)
    tl.store(key_cache + slot * width + column, keys, mask=written)
    tl.store(value_cache + slot * width + column, values, mask=written)


def run(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Write rows to their slots in place."""
    width = key[0].numel()
    block = min(1024, triton.next_power_of_2(width))
    grid = (key.shape[0], triton.cdiv(width, block))
    copy_kernel[grid](
        key, value, key_cache, value_cache, slot_mapping, width, WIDTH=block, num_warps=4
    )
