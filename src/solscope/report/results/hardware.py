"""`solscope hardware` in the terminal, and its figures in readable units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from solscope.hardware import Figure, Hardware
from solscope.hardware.base import CHIP, MEMORY, PIPES, SUSTAINED
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import Column, heading, table
from solscope.text import clean

SCALES = {
    "FLOP/s": ((1e12, "TFLOP/s"),),
    "op/s": ((1e12, "Top/s"),),
    "byte/s": ((1e12, "TB/s"), (1e9, "GB/s")),
    "byte": ((2**30, "GiB"), (2**20, "MiB")),
    "Hz": ((1e6, "MHz"),),
    "s": ((1e-6, "µs"), (1e-9, "ns")),
    "count": ((1, ""),),
}
"""Readable multiples of each unit, the largest first."""

LIST_COLUMNS = (
    ("bf16 TFLOP/s", "tensor.bf16", 1e12),
    ("fp8 TFLOP/s", "tensor.fp8", 1e12),
    ("fp4 TFLOP/s", "tensor.fp4", 1e12),
    ("HBM TB/s", "hbm.bandwidth", 1e12),
    ("HBM GiB", "hbm.size", 2**30),
    ("L2 MiB", "l2.size", 2**20),
)


def readable(figure: Figure) -> tuple[str, str]:
    """The number of a figure and its unit, in the multiple that reads best."""
    scales = SCALES[figure.unit]
    factor, unit = next(
        ((factor, unit) for factor, unit in scales if figure.value >= factor), scales[-1]
    )
    return _digits(figure.value / factor), unit


def _digits(value: float) -> str:
    """Four digits, or all of those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def cell(hardware: Hardware, name: str) -> str:
    """A figure with its unit; `-` when no source states it."""
    figure = hardware.figures.get(name)
    return "-" if figure is None else " ".join(readable(figure)).strip()


class HardwareList(TypedDict):
    """The GPUs of `solscope hardware`."""

    hardware: list[Hardware]


@form("hardware_list", HardwareList)
def list_parts(result: HardwareList, screen: Screen) -> list[Printable]:
    """One line per GPU."""
    cards = result["hardware"]
    columns = [
        Column("name", text=True),
        Column("arch", text=True, spare=3),
        *(Column(title, spare=index) for index, (title, _, _) in enumerate(LIST_COLUMNS)),
        Column("title", text=True),
    ]
    rows = [
        (gpu.name, gpu.arch or "-", *(_scaled(gpu, *column) for column in LIST_COLUMNS), gpu.title)
        for gpu in cards
    ]
    return [table(columns, rows, screen.width)]


def _scaled(gpu: Hardware, _: str, name: str, factor: float) -> str:
    value = gpu.value(name)
    return "-" if value is None else _digits(value / factor)


@form("hardware_measure", HardwareList)
@form("hardware_show", HardwareList)
def show_parts(result: HardwareList, screen: Screen) -> list[Printable]:
    """All figures: one GPU with sources, several side by side with their sources below."""
    chosen = result["hardware"]
    if len(chosen) == 1:
        return _alone(chosen[0], screen.width)
    columns = [Column("", text=True), *(Column(_label(gpu)) for gpu in chosen)]
    rows = [(name, *(cell(gpu, name) for gpu in chosen)) for name in _names(chosen)]
    parts: list[Printable] = [table(columns, rows, screen.width)]
    for gpu in chosen:
        parts += [Text(""), heading(f"{_label(gpu)}: {gpu.title}"), *_sources(gpu)]
    return parts


def _alone(gpu: Hardware, width: int) -> list[Printable]:
    columns = [
        Column("figure", text=True),
        Column("value"),
        Column("unit", text=True),
        Column("date", text=True),
        Column("source", text=True),
    ]
    rows = [
        (name, *readable(figure), figure.date, _with_note(figure))
        for name, figure in ((name, gpu.figures[name]) for name in _names([gpu]))
    ]
    about: list[Printable] = [Text(clean(f"{key}: {value}")) for key, value in gpu.about.items()]
    return [
        heading(f"{_label(gpu)}: {gpu.title}, {gpu.vendor} {gpu.arch or ''}".rstrip()),
        *about,
        table(columns, rows, width, whole=True),
    ]


def _sources(gpu: Hardware) -> list[Printable]:
    """Each source once, with its date and the figures that come from it."""
    figures: dict[tuple[str, str], list[str]] = {}
    for name in _names([gpu]):
        figure = gpu.figures[name]
        figures.setdefault((figure.source, figure.date), []).append(name)
    return [
        Text(clean(f"{source}, {date}: {', '.join(names)}"))
        for (source, date), names in figures.items()
    ]


def _names(chosen: Sequence[Hardware]) -> list[str]:
    return [
        name
        for name in (*PIPES, *SUSTAINED, *MEMORY, *CHIP)
        if any(name in gpu.figures for gpu in chosen)
    ]


def _with_note(figure: Figure) -> str:
    return figure.source if figure.note is None else f"{figure.source} ({figure.note})"


def _label(gpu: Hardware) -> str:
    return f"{gpu.name} (measured)" if gpu.measured else gpu.name
