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
    for c in range(count):
        before = current.to(k.dtype)
        h[:, c] = before
        new = right[:, c].float() - left[:, c] @ before
        x[:, c] = new
        written = keys[:, c] @ (new * weight[:, c]).to(k.dtype)
        current = current * forget[:, c] + written
    state[rows] = current
    return h, x.transpose(2, 3).flatten(1, 2)[:, :tokens]
