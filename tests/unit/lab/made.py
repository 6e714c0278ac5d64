"""Small observations written out by hand."""

from __future__ import annotations

from solscope.readers.packed import (
    VERSION,
    Counter,
    KernelClass,
    Observations,
    Run,
    Section,
    Step,
    Tile,
)

MS = 1_000_000


def observations(
    wall: int = 100_000,
    attention: int = 20_000,
    cpu_mhz: float = 3500.0,
    steps: int = 8,
    counters: list[Counter] | None = None,
) -> Observations:
    """Steps of `wall` us with an attention kernel, and samples in the middle of each.

    Every second step is one part in a thousand longer, so that there is some spread.
    """
    lengths = [(wall + (at % 2) * wall // 1000) * 1000 for at in range(steps)]
    starts = [sum(lengths[:at]) for at in range(steps)]
    tenth = [length // 10 for length in lengths]
    busy = [(attention + (at % 2) * 10) * 1000 for at in range(steps)]
    clock = [
        (start + length // 2) // 100_000 for start, length in zip(starts, lengths, strict=True)
    ]
    readings = {
        "cpu_frequency": (None, [cpu_mhz + at % 2 for at in range(steps)]),
        "gpu_sm_frequency": (0, [1980.0 - at % 2 for at in range(steps)]),
    }
    known = [
        Counter(name, device, False, 0, values, steps)
        for name, (device, values) in readings.items()
    ]
    return Observations(
        solscope_observations=VERSION,
        run=Run(
            name="made",
            format="kineto",
            gpus=["H200"],
            framework=None,
            found_by="annotation",
            span_ns=sum(lengths),
            unix_ns=0,
            processes=1,
            devices=1,
            stacks=False,
            shapes=False,
            operators=0,
            graph_share_pct=0.0,
            linked_pct=100.0,
            overhead_ns=0,
            dtypes={},
            warnings=[],
        ),
        steps=[
            Step(at, start, length, "decode", None, None, 1, True)
            for at, (start, length) in enumerate(zip(starts, lengths, strict=True))
        ],
        tiles=[
            Tile("compute", "attention", busy),
            Tile("idle", "host", [a - b for a, b in zip(lengths, busy, strict=True)]),
        ],
        kernels=[
            KernelClass(
                category="attention",
                name="flash_fwd",
                dtype="bf16",
                calls=[1] * steps,
                ns=busy,
                exposed_ns=busy,
                p50_ns=attention * 1000,
                grids={},
                bytes=0,
            )
        ],
        host_calls=[],
        sections=[Section("schedule", [1] * steps, tenth, tenth, [0] * steps)],
        host_ops=[],
        stalls=[],
        clocks=[clock if counters is None else [0, 1000, 2000, 3000]],
        counters=known if counters is None else counters,
    )
