"""Causal convolution of flash-linear-attention; it keeps w columns of state, the operator w - 1."""

import torch
from fla.modules.convolution import causal_conv1d
from torch.nn.functional import pad


def run(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, conv_state: torch.Tensor
) -> torch.Tensor:
    """[dim, tokens]; `conv_state` becomes the last columns, in place."""
    kept = conv_state.shape[-1]
    state = pad(conv_state, (1, 0))
    out, _ = causal_conv1d(x.T[None], weight, bias, initial_state=state, activation="silu")
    last = x[:, -kept:]
    if last.shape[1] < kept:
        last = torch.cat([conv_state[0, :, last.shape[1] :], last], 1)
    conv_state.copy_(last[None])
    return out[0].T
