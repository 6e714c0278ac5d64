"""`solscope whatif` in the terminal: one scenario as a waterfall, several as a table."""

from __future__ import annotations

from collections.abc import Iterator

from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import micro, number
from solscope.report.layout.steps import mean_step
from solscope.report.layout.tables import Column, heading, numbers, table
from solscope.text import clean
from solscope.whatif.predict import PredictedLine, Prediction, Predictions


@form("whatif", Predictions)
def whatif_parts(result: Predictions, screen: Screen, *, top: int) -> list[Printable]:
    """The recorded step, then the predicted one or ones."""
    sizes = [
        None if result.batch is None else f"batch {result.batch}",
        None if result.context is None else f"context {result.context:,.0f}",
    ]
    stated = "".join(f", {size}" for size in sizes if size)
    parts: list[Printable] = [
        Text(
            f"{clean(result.profile)} on {result.hardware}: {mean_step(result.basis)}; GPU busy "
            f"for {number(result.recorded_gpu_ms, 3)} ms of it{stated}",
            style="bold",
        ),
        Text(""),
    ]
    if len(result.predictions) == 1:
        return parts + _one(result.predictions[0], screen.width, top)
    return parts + _several(result, screen.width)


def _one(p: Prediction, width: int, top: int) -> list[Printable]:
    rows = [("recorded", number(p.recorded_ms, 3), "")]
    rows += [(s.change, number(s.step_ms, 3), f"{0.0 - s.saved_ms:+,.3f}") for s in p.waterfall]
    parts: list[Printable] = [
        Text(
            f"{clean(p.scenario)}: {number(p.predicted_ms, 3)} ms "
            f"({number(p.low_ms, 3)} to {number(p.high_ms, 3)}), {p.speedup:.2f} x; "
            f"limited by the {p.limited_by}"
        ),
        Text(""),
        table([Column("", text=True), Column("step ms"), Column("change ms")], rows, width),
    ]
    changed = [row for row in p.operators if abs(row.predicted_us - row.recorded_us) > 0.005][:top]
    if changed:
        columns = [
            Column("operator", text=True),
            *numbers("recorded µs", "predicted µs", ("low", 1), ("high", 1)),
        ]
        cells = [
            (
                row.operator,
                *(
                    micro(1e3 * value)
                    for value in (row.recorded_us, row.predicted_us, row.low_us, row.high_us)
                ),
            )
            for row in changed
        ]
        cells += list(_sums(p.operators, changed))
        parts += [Text(""), heading("GPU time per step"), table(columns, cells, width)]
    return [*parts, Text(""), heading("assumptions"), *_assumptions(p)]


def _sums(rows: list[PredictedLine], shown: list[PredictedLine]) -> Iterator[tuple[str, ...]]:
    """What is not listed, and all of it; calls that run at once count one by one."""
    rest = len(rows) - len(shown)
    listed = {row.operator for row in shown}
    for name, summed in (
        (f"({rest} more)", [row for row in rows if row.operator not in listed]),
        ("sum", rows),
    ):
        if summed and (rest or name == "sum"):
            sums = [
                sum(getattr(row, field) for row in summed)
                for field in ("recorded_us", "predicted_us", "low_us", "high_us")
            ]
            yield (name, *(micro(1e3 * value) for value in sums))


def _several(result: Predictions, width: int) -> list[Printable]:
    columns = [
        Column("scenario", text=True),
        *numbers("step ms", ("low", 2), ("high", 2), "speedup", ("tokens/s", 1), ("GPU ms", 3)),
        Column("limit", text=True, spare=4),
    ]
    rows = [
        (
            p.scenario,
            number(p.predicted_ms, 3),
            number(p.low_ms, 3),
            number(p.high_ms, 3),
            f"{p.speedup:.2f} x",
            number(p.tokens_per_s, 0),
            number(p.gpu_ms, 3),
            p.limited_by,
        )
        for p in result.predictions
    ]
    parts: list[Printable] = [table(columns, rows, width)]
    batches = [p.batch for p in result.predictions if p.batch is not None]
    if result.knee is not None:
        knee = f"knee: batch {result.knee}; doubling it gives less than 1.5 x the tokens/s"
        parts += [Text(""), Text(knee)]
    elif len(batches) > 2 and batches == sorted(set(batches)):
        known = all(p.tokens_per_s for p in result.predictions)
        none = f"no knee up to batch {max(batches)}"
        parts += [
            Text(""),
            Text(
                none if known else "the knee is not known: tokens/s are predicted for decode only"
            ),
        ]
    assumptions = [said for p in result.predictions for said in p.assumptions]
    return [
        *parts,
        Text(""),
        heading("assumptions"),
        *(Text(f"- {clean(said)}") for said in dict.fromkeys(assumptions)),
    ]


def _assumptions(p: Prediction) -> list[Printable]:
    return [Text(f"- {clean(said)}") for said in p.assumptions]
