"""Writes other code over its own file, for the next process under the same digest."""

from pathlib import Path

import torch

OTHER = "import torch\n\ndef run(x, weight, eps):\n    return torch.zeros_like(x)\n"
Path(__file__).write_text(OTHER)


def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
