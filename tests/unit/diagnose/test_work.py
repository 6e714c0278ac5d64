"""When it is said that the work differs: beyond what one run itself shows, with enough steps."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.evidence import work
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.units import match, middle_half
from solscope.readers.packed import HostOp, Observations
from tests.unit.diagnose.making import EAGER, GRAPH, SHAPES
from tests.unit.diagnose.test_causes import slower_kernels

ATTENTION, PRODUCT = "aten::_flash_attention", "aten::mm"
WEIGHTS = "[[32,4096],[4096,{}]]"


def found(normal: Observations, abnormal: Observations) -> Findings:
    result = find(match(normal, abnormal))
    assert result is not None
    return result


def with_requests(*requests: int, steps: int = 20) -> Observations:
    """A run whose steps hold these numbers of requests in turn."""
    run = EAGER.but(steps=steps).run()
    return msgspec.structs.replace(
        run,
        steps=[
            msgspec.structs.replace(step, requests=requests[at % len(requests)])
            for at, step in enumerate(run.steps)
        ],
    )


def with_shapes(run: Observations, name: str, shapes: dict[str, int]) -> Observations:
    """The run with these launches of an operator."""
    others = [op for op in run.host_ops if op.name != name]
    return msgspec.structs.replace(run, host_ops=[*others, HostOp(name, 240, 1, 1, 1, shapes)])


def keys(*lengths: int, heads: int = 8) -> dict[str, int]:
    return {SHAPES.replace("1536", str(n)).replace(",8,", f",{heads},"): 12 for n in lengths}


# --- Batches


@pytest.mark.parametrize(("whole", "differs"), [(3, None), (4, True)])
def test_batches_of_few_steps_are_not_told(whole: int, differs: bool | None) -> None:
    runs = [with_requests(size, steps=whole + 2) for size in (32, 64)]
    assert work.batch_differs(found(*runs)).holds is differs
    assert (diagnose_runs(runs[0], runs[1]).verdict == "workload_changed") is bool(differs)


@pytest.mark.parametrize(
    ("sizes", "differs"),
    [((24, 30, 33, 37, 40), None), ((64, 60, 58, 70, 66), True), ((29, 31, 30, 29, 31), None)],
)
def test_batches_that_vary_must_differ_by_more(
    sizes: tuple[int, ...], differs: bool | None
) -> None:
    runs = with_requests(25, 31, 34, 38, 39), with_requests(*sizes)
    answer = work.batch_differs(found(*runs))
    assert answer.holds is differs
    assert ("steps of one run differ by as much" in answer.text) is (differs is None)
    assert (diagnose_runs(runs[0], runs[1]).verdict == "workload_changed") is bool(differs)


@pytest.mark.parametrize(("activation", "differs"), [("64", True), ("110", None)])
def test_grids_of_another_model_are_no_other_batch(activation: str, differs: bool | None) -> None:
    """A wider layer has larger grids as well, but not all by one factor."""
    grids = {"norm": "64,1,1", "activation": f"{activation},1,1"}
    wider = GRAPH.but(
        kernels={
            key: (calls, us, grids.get(key[0], grid))
            for key, (calls, us, grid) in GRAPH.kernels.items()
        }
    )
    assert work.batch_differs(found(GRAPH.run(), wider.run(3))).holds is differs


# --- Contexts


@pytest.mark.parametrize(("whole", "differs"), [(3, None), (4, True)])
def test_contexts_of_few_steps_are_not_told(whole: int, differs: bool | None) -> None:
    run = EAGER.but(steps=whole + 2).run()
    runs = [with_shapes(run, ATTENTION, keys(length)) for length in (512, 1024)]
    assert work.context_in_shapes(found(*runs)).holds is differs
    assert (diagnose_runs(runs[0], runs[1]).verdict == "workload_changed") is bool(differs)


@pytest.mark.parametrize(
    ("lengths", "differs"),
    [((150, 950, 1900), None), ((100, 900, 1750), False), ((3000, 4000, 5000), True)],
)
def test_contexts_that_vary_must_differ_by_more(
    lengths: tuple[int, ...], differs: bool | None
) -> None:
    runs = [with_shapes(EAGER.run(), ATTENTION, keys(*one)) for one in ((100, 900, 1700), lengths)]
    assert work.context_in_shapes(found(*runs)).holds is differs


def test_operators_without_tensors_have_no_context() -> None:
    runs = [with_shapes(EAGER.run(), ATTENTION, {"[[],[],[4,8]]": 12}) for _ in range(2)]
    assert work.context_in_shapes(found(*runs)).holds is None


@given(st.dictionaries(st.integers(0, 50), st.integers(1, 9), min_size=1))
def test_sizes_with_counts_reach_as_far_as_all_of_them(sizes: dict[int, int]) -> None:
    whole = [size for size, count in sizes.items() for _ in range(count)]
    low, high = np.quantile(whole, [0.25, 0.75])
    assert middle_half(sizes) == pytest.approx(high - low, abs=1e-9)


def test_counts_of_a_file_are_not_written_out() -> None:
    many = {1: 2**61, 5: 2**61, 9: -3}
    assert middle_half(many) == 4.0
    assert middle_half({}) == 0.0
    runs = [with_shapes(EAGER.run(), ATTENTION, dict.fromkeys(keys(n), 2**60)) for n in (512, 1024)]
    assert work.context_in_shapes(found(*runs)).holds is True


@pytest.mark.parametrize("heads", [4, 16])
def test_keys_of_other_heads_are_no_other_context(heads: int) -> None:
    runs = [with_shapes(EAGER.run(), ATTENTION, keys(1536, heads=n)) for n in (8, heads)]
    answer = work.context_in_shapes(found(*runs))
    assert answer.holds is None
    assert answer.text.endswith("which need not be other lengths")
    assert diagnose_runs(runs[0], runs[1]).verdict == "no_change"


def test_keys_as_many_as_queries_differ_in_their_heads_alone() -> None:
    shapes = "[[1,32,256,128],[1,{},256,128],[1,{},256,128]]"
    runs = [
        with_shapes(EAGER.run(), ATTENTION, {shapes.replace("{}", heads): 240}) for heads in "84"
    ]
    assert work.context_in_shapes(found(*runs)).holds is None


def test_keys_in_pages_do_not_tell_a_length() -> None:
    """A cache of more pages is no longer context."""
    shapes = "[[32,1,32,128],[{},16,8,128],[{},16,8,128]]"
    runs = [
        with_shapes(EAGER.run(), ATTENTION, {shapes.replace("{}", pages): 240})
        for pages in ("20000", "25000")
    ]
    assert work.context_in_shapes(found(*runs)).holds is None


@pytest.mark.parametrize(
    ("own", "differs"), [((4096, 5120), None), ((4096, 6144, 5120), True), ((4096, 6144), True)]
)
def test_shapes_of_unlike_models_do_not_tell_the_context(
    own: tuple[int, ...], differs: bool | None
) -> None:
    """One of two recordings may show more weights; where both have their own, models differ."""
    runs = [
        with_shapes(
            with_shapes(EAGER.run(), PRODUCT, {WEIGHTS.format(n): 96 for n in columns}),
            ATTENTION,
            keys(length),
        )
        for columns, length in (((4096, 6144), 512), (own, 1024))
    ]
    answer = work.context_in_shapes(found(*runs))
    assert answer.holds is differs
    assert ("the models differ" in answer.text) is (differs is None)


def test_what_attention_alone_suggests_needs_a_test() -> None:
    few = GRAPH.but(steps=5)  # Three count: all but the first and the last.
    slow = slower_kernels(few, 2.5, "attention")
    assert work.attention_alone(found(few.run(), slow.run(3))).holds
    assert diagnose_runs(few.run(), slow.run(3)).verdict == "cannot_compare"


# --- Prompts


def prefilling(rows: dict[int, int], every: int = 4) -> Observations:
    """Every so many steps hold a prefill; launches of products by their rows."""
    run = EAGER.but(phases=("decode",) * (every - 1) + ("mixed",), requests=None).run()
    return with_shapes(run, PRODUCT, {f"[[{n},4096],[4096,4096]]": rows[n] for n in rows})


@pytest.mark.parametrize(
    ("rows", "every", "differs"),
    [
        ({32: 96, 512: 48}, 4, True),
        ({32: 96, 512: 48}, 8, None),
        ({32: 96, 260: 48}, 4, False),
        ({32: 96, 256: 48, 700: 1}, 4, False),
        ({32: 96, 100: 24, 900: 24}, 4, None),
    ],
    ids=["longer", "too few", "about the same", "one other", "as in one run"],
)
def test_prompts(rows: dict[int, int], every: int, differs: bool | None) -> None:
    runs = prefilling({32: 96, 256: 48}, every), prefilling(rows, every)
    assert work.prompts_differ(found(*runs)).holds is differs


def test_batches_of_decode_steps_are_no_prompts() -> None:
    """Numbers of requests that vary have some in common and others not, without any prefill."""
    rows = ({32: 96, 36: 48}, {32: 96, 40: 48})
    runs = [prefilling(one, every=21) for one in rows]
    assert work.prompts_differ(found(*runs)).holds is None
    stated = [
        msgspec.structs.replace(
            run, steps=[msgspec.structs.replace(step, requests=40) for step in run.steps]
        )
        for run in runs
    ]
    assert work.prompts_differ(found(*stated)).holds is False


# --- The mix of phases


@pytest.mark.parametrize(
    ("phases", "steps", "differs"),
    [
        ("dddm", 22, True),
        ("dm", 9, None),
        ("dm", 10, True),
        ("ddddddddddddddmmmmmm", 22, None),
        ("dddddddddddddddddddm", 22, False),
    ],
    ids=["more often", "few steps", "enough steps", "in one burst", "as often"],
)
def test_a_mix(phases: str, steps: int, differs: bool | None) -> None:
    named = tuple({"d": "decode", "m": "mixed"}[one] for one in phases)
    normal = EAGER.but(steps=steps).run()
    abnormal = EAGER.but(steps=steps, phases=named).run(1)
    assert work.mix_differs(found(normal, abnormal)).holds is differs
