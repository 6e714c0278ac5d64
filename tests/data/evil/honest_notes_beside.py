"""Writes what it chose into a file beside its own, as kernels do that tune themselves."""

import json
from pathlib import Path

import torch

Path(__file__).with_name("tiles.json").write_text(json.dumps({"rows": 4}))


def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
