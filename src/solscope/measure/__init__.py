"""Measure what the GPU of this machine reaches, as opposed to what its data sheet says.

Needs torch and the standard library only, so it also runs from a clone on a bare machine:

    python3 src/solscope/measure OUT.toml [NAME]

That is why it does not belong to `solscope.hardware`, which needs msgspec to read its files.

Every number is a median of windows timed with device events, the best of several sizes. Inputs are
random: zeros run faster. Matrix products are timed in bursts after a pause, where the clock is
high, and sustained, where the power limit holds it down. Clocks and power are read and never set.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from solscope.errors import MissingToolError
from solscope.measure.card import Card, MeasuredCard, Reading, describe, short_name
from solscope.measure.floors import floors
from solscope.measure.memory import cache_bandwidth, memory_bandwidth, sizes
from solscope.measure.products import matrix_rates

Progress = Callable[[str], None]


def measure(progress: Progress, name: str | None = None) -> MeasuredCard:
    """Run all probes on GPU 0; takes one to three minutes. Changes nothing on the card."""
    torch = import_torch()
    card = Card(torch)
    device = str(torch.cuda.get_device_name(0))
    about = describe(card, device)
    readings: list[Reading] = []
    for probe in (memory_bandwidth, matrix_rates, cache_bandwidth, floors, sizes):
        for reading in probe(card):
            progress(f"{reading.name} {reading.value:.4g} {reading.unit}")
            readings.append(reading)
        torch.cuda.empty_cache()
    if card.skipped:
        about["skipped"] = "; ".join(card.skipped)
    arch = (
        str(card.properties.gcnArchName).partition(":")[0]
        if card.is_amd
        else "sm_{}{}".format(*torch.cuda.get_device_capability(0))
    )
    vendor = "amd" if card.is_amd else "nvidia"
    return MeasuredCard(name or short_name(device), device, vendor, arch, readings, about)


def card_name() -> str:
    """Short name of GPU 0."""
    return short_name(str(import_torch().cuda.get_device_name(0)))


def import_torch() -> Any:
    """Torch, when it is there and sees a GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise MissingToolError(
            "measuring needs PyTorch: pip install torch (see pytorch.org for your driver)"
        ) from None
    if not torch.cuda.is_available():
        raise MissingToolError("measuring needs a GPU, and PyTorch finds none on this machine")
    return torch
