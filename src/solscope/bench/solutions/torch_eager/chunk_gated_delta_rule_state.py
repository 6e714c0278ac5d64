"""The serial half of the chunked gated delta rule: two bf16 products per chunk."""

import torch
from torch.nn.functional import pad


def run(
    k: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    g: torch.Tensor,
    state: torch.Tensor,
    state_indices: torch.Tensor,
    chunk_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state before each chunk and what each token writes; `state` is updated in place."""
    batch, tokens, heads, width = u.shape
    missing = -tokens % chunk_size
    share = heads // k.shape[2]

    def chunks(x: torch.Tensor) -> torch.Tensor:
        padded = pad(x, (0, 0, 0, 0, 0, missing))
        return torch.unflatten(padded, 1, (-1, chunk_size)).transpose(2, 3).contiguous()

    keys, left, right = chunks(k.repeat_interleave(share, 2)).mT, chunks(w), chunks(u)
    # Padded tokens repeat the last sum, so that the last row of a chunk is its last token's.
    sums = torch.cat([g, g[:, -1:].expand(-1, missing, -1)], 1)
    sums = torch.unflatten(sums, 1, (-1, chunk_size)).transpose(2, 3)
    weight = (sums[..., -1:] - sums).exp()[..., None]
    forget = sums[..., -1].exp()[..., None, None]
    rows = state_indices.long()
    current = state[rows]
    count = right.shape[1]
    h = k.new_empty(batch, count, heads, k.shape[-1], width)
    x = torch.empty_like(right)
    state[rows] = one_after_the_other(current, h, x, right, left, keys, weight, forget)
    return h, x.transpose(2, 3).flatten(1, 2)[:, :tokens]


@torch.compiler.disable(recursive=False)  # type: ignore[no-untyped-call, untyped-decorator]
def one_after_the_other(current: torch.Tensor, *chunks: torch.Tensor) -> torch.Tensor:
    """The last state; torch.compile gets one step, not hundreds in a row."""
    for c in range(chunks[0].shape[1]):
        current = one_chunk(current, *(chunk[:, c] for chunk in chunks))
    return current


def one_chunk(
    current: torch.Tensor,
    h: torch.Tensor,
    x: torch.Tensor,
    u: torch.Tensor,
    w: torch.Tensor,
    keys: torch.Tensor,
    weight: torch.Tensor,
    forget: torch.Tensor,
) -> torch.Tensor:
    """Fill in h and x of a chunk; the state behind it."""
    before = current.to(h.dtype)
    h.copy_(before)
    new = u.float() - w @ before
    x.copy_(new)
    return current * forget + keys @ (new * weight).to(h.dtype)
