"""Captures and replays recorded on an H200 (`scripts/record_captures.py`), against eager runs.

Launch calls do not name their kernels there. `full` captures a graph per step, `piecewise` one per
part between attentions, `streams` runs two projections side by side, `compiled` runs Triton kernels
of Inductor.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import solscope
from solscope.attribution import Attributed, attribute
from solscope.attribution.companion_files import companion_files
from solscope.attribution.companions import unmatched
from solscope.profile import Profile
from tests.sampling import some, some_rows

DATA = Path(__file__).parents[2] / "data/captures"
VARIANTS = ("full", "piecewise", "streams", "compiled")


@cache
def opened(path: Path) -> Profile:
    return solscope.open(path)


def captures(variant: str, files: str = "*") -> list[Profile]:
    folder = DATA / variant / "capture_traces"
    return [opened(Path(f)) for f in companion_files(folder, 0) if Path(f).match(files)]


def replay(variant: str, companions: list[Profile]) -> Attributed:
    return attribute(opened(DATA / variant / "replay.json.zst"), companion=companions)


def calls_by_tokens(made: Attributed) -> dict[tuple[int, int], Counter[tuple[str, str, str]]]:
    """Kernel, operator and shapes of everything that each step ran."""
    rows = made.activities.join(made.steps.select("step", "tokens"), on="step", how="left")
    shapes = made.profile.events["input_dims"].gather(rows["op_row"])
    rows = rows.select(
        "step",
        "tokens",
        pl.col("name").cast(pl.String),
        pl.coalesce("op_borrowed", "op").cast(pl.String),
        pl.coalesce("dims_borrowed", shapes).cast(pl.String),
    )
    return {
        (step, tokens): Counter(part.drop("step", "tokens").rows())
        for (step, tokens), part in rows.partition_by("step", "tokens", as_dict=True).items()
    }


@pytest.mark.parametrize("variant", some(VARIANTS, 2))
@pytest.mark.parametrize("companion", ["captures", "eager"])
def test_every_replayed_kernel_gets_the_operator_and_shapes_of_the_eager_run(
    variant: str, companion: str
) -> None:
    eager = opened(DATA / variant / "eager.json.zst")
    lent = captures(variant) if companion == "captures" else [eager]
    made = replay(variant, lent)
    truth = {tokens: calls for (_, tokens), calls in calls_by_tokens(attribute(eager)).items()}
    found = calls_by_tokens(made)
    assert len(found) == 3 * len(truth)
    for (_, tokens), calls in found.items():
        assert calls == truth[tokens]
    assert unmatched(made, lent) == []


def test_one_capture_serves_the_steps_of_its_batch_size() -> None:
    lent = captures("full", "bs_4_*")
    made = replay("full", lent)
    served = made.activities.filter(pl.col("borrowed_by") == "companion")
    sizes = made.steps.filter(pl.col("step").is_in(served["step"].unique().to_list()))
    assert sizes["tokens"].to_list() == [4, 4, 4]
    assert len(unmatched(made, lent)) == 3


@pytest.mark.parametrize(
    ("variant", "other"),
    some_rows([("full", "compiled"), ("piecewise", "full"), ("compiled", "full")], 2),
)
def test_captures_of_another_program_give_nothing(variant: str, other: str) -> None:
    lent = captures(other)
    made = replay(variant, lent)
    assert not (made.activities["borrowed_by"] == "companion").any()
    assert all(" replays: " in reason for reason in unmatched(made, lent))


def test_a_capture_one_node_off_gives_nothing() -> None:
    """As many nodes of the same kinds; only the families of operators say that it is wrong."""
    (lent,) = captures("full", "bs_8_*")
    events = lent.events
    calls = events.with_row_index("row").filter(pl.col("name").cast(pl.String).str.contains("Lau"))
    inside = calls.sort("start_ns")["row"].to_list()
    order = list(range(events.height))
    for at, before in zip(inside[1:], inside, strict=False):
        order[at] = before
    moved = events.with_columns(events["external_id"].gather(order))
    shifted = replace(lent, events=moved)
    made = replay("full", [shifted])
    assert not (made.activities["borrowed_by"] == "companion").any()
    reasons = unmatched(made, [shifted])
    assert any("of the family of the operator captured" in reason for reason in reasons)
