"""Writes other code over its own file when it is called: the next process must run this one."""

from pathlib import Path

import torch

OTHER = "import torch\n\ndef run(x, weight, eps):\n    return torch.zeros_like(x)\n"


def run(x, weight, eps):
    file = Path(__file__)
    if file.read_text() != OTHER:
        file.write_text(OTHER)
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
