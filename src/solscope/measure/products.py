"""Rates of dense matrix products, per precision, in bursts and sustained."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from solscope.measure.card import OPTIONAL, Card, Probe, Reading, first_line

SHAPES = ((8192, 8192, 8192), (16384, 8192, 8192), (8192, 8192, 16384))
"""m, n, k of the matrix products: all operands together exceed every L2 many times."""


def matrix_rates(card: Card) -> Iterator[Reading]:
    """Dense matrix products on random data, per precision, in bursts and sustained."""
    for pipe, unit, precision, make in _products(card):
        try:
            with _float32_precision(card.torch, precision):
                readings = _best_products(card, pipe, unit, make)
        except OPTIONAL as error:
            card.skipped.append(f"{pipe}: {first_line(error)}")
        else:
            yield from readings


def _best_products(
    card: Card, pipe: str, unit: str, make: Callable[[int, int, int], Probe]
) -> list[Reading]:
    bursts, sustained = [], []
    for m, n, k in SHAPES:
        run, work = make(m, n, k), 2e3 * m * n * k
        timing = card.time(run)
        how = f"{m}x{n}x{k} on random data, {timing.spread}"
        state = card.state_during(run, timing.median_ms)
        sustained.append((work / timing.median_ms, f"{how}{state}"))
        timing = card.time_bursts(run, timing.median_ms)
        how = f"{m}x{n}x{k} on random data in bursts after a pause, {timing.spread}"
        bursts.append((work / timing.median_ms, how))
    return [
        Reading("peaks", name, rate, unit, how)
        for name, (rate, how) in ((pipe, max(bursts)), (f"{pipe}.sustained", max(sustained)))
    ]


def _products(card: Card) -> Iterator[tuple[str, str, str, Callable[[int, int, int], Probe]]]:
    """Pipe, unit, float32 precision, and the maker of a matrix product."""
    torch = card.torch

    def plain(dtype: Any) -> Callable[[int, int, int], Probe]:
        def make(m: int, n: int, k: int) -> Probe:
            a, b = _random(torch, m, k, dtype), _random(torch, n, k, dtype).t()
            out = torch.empty(m, n, device="cuda", dtype=dtype)
            return lambda: torch.mm(a, b, out=out)

        return make

    def fp8(m: int, n: int, k: int) -> Probe:
        dtype = torch.float8_e4m3fnuz if card.is_amd else torch.float8_e4m3fn
        a, b = _random(torch, m, k, dtype), _random(torch, n, k, dtype).t()
        unit_scale = torch.ones((), device="cuda", dtype=torch.float32)
        options = {"scale_a": unit_scale, "scale_b": unit_scale, "out_dtype": torch.bfloat16}
        return lambda: torch._scaled_mm(a, b, use_fast_accum=True, **options)

    def int8(m: int, n: int, k: int) -> Probe:
        a, b = (
            torch.randint(-127, 128, (rows, k), device="cuda", dtype=torch.int8) for rows in (m, n)
        )
        return lambda: torch._int_mm(a, b.t())

    strict = "tensor.fp32" if card.is_amd else "vector.fp32"
    yield "tensor.bf16", "FLOP/s", "highest", plain(torch.bfloat16)
    yield "tensor.fp16", "FLOP/s", "highest", plain(torch.float16)
    yield "tensor.tf32", "FLOP/s", "high", plain(torch.float32)
    yield strict, "FLOP/s", "highest", plain(torch.float32)
    yield "tensor.fp8", "FLOP/s", "highest", fp8
    yield "tensor.int8", "op/s", "highest", int8


def _random(torch: Any, rows: int, columns: int, dtype: Any) -> Any:
    return torch.randn(rows, columns, device="cuda", dtype=torch.float32).to(dtype)


@contextlib.contextmanager
def _float32_precision(torch: Any, precision: str) -> Iterator[None]:
    """`high` lets float32 products use tf32; `highest` does not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
