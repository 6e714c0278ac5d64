"""Depthwise causal convolution with SiLU: a grouped conv1d over the state and the tokens."""

import torch
from torch.nn.functional import conv1d, silu


def run(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, conv_state: torch.Tensor
) -> torch.Tensor:
    """[dim, tokens]; `conv_state` becomes the last columns, in place."""
    z = torch.cat([conv_state[0], x], 1)
    out = conv1d(z[None], weight[:, None], bias, groups=weight.shape[0])[0]
    conv_state.copy_(z[None, :, x.shape[1] :])
    return silu(out)
