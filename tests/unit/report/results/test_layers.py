from __future__ import annotations

import csv
import io

import msgspec
import pytest

from solscope.report.results.layers import csv_layers, layers_parts, lines, markdown_layers
from solscope.views.layers import (
    Group,
    KernelTime,
    LayerCoverage,
    LayerKind,
    LayerTable,
    Overlap,
    Row,
)
from tests.printing import printed

QKV = Row(
    role="qkv",
    operator="gemm",
    kernels=[["nvjet", "splitk"], ["Cijk", "splitk"]],
    modules=[["XAttention.Linear"], []],
    time_us=[10.0, 15.0],
    kernel_times=[
        [KernelTime("nvjet", 9.5), KernelTime("splitk", 0.5)],
        [KernelTime("Cijk", 14.0), KernelTime("splitk", 1.0)],
    ],
)
REDUCE = Row(
    role="all_reduce",
    operator=None,
    kernels=[["nccl|x<y>"], []],
    modules=[[], []],
    time_us=[2.5, None],
    kernel_times=[[KernelTime("nccl|x<y>", 2.5)], []],
)
TABLE = LayerTable(
    profiles=["a", "b"],
    phase="decode",
    per="layer",
    stat="mean",
    passes=[3, 3],
    end_to_end_us=[1250.0, 1000.0],
    layers_us=[25.0, 15.0],
    unattributed_us=[0.0, 0.0],
    idle_us=[1225.0, 985.0],
    overlapped_us=[0.0, 0.0],
    overlaps=[],
    outside=[Group("prologue", [None, None], []), Group("epilogue", [None, None], [])],
    coverage=LayerCoverage([100.0, 99.96], [99.5, 99.0], [80.0, 0.0]),
    layer_kinds=[
        LayerKind("attention+dense", [2, 1], [12.5, 15.0], [
            Group("attention", [12.5, 15.0], [QKV, REDUCE]),
        ]),
    ],
    warnings=[[], []],
)  # fmt: skip


def text(table: LayerTable, *, width: int = 100, kernels: bool = False) -> list[str]:
    text = printed(layers_parts, table, width=width, color=False, kernels=kernels)
    return [line.rstrip() for line in text.splitlines()]


def words_of(found: list[str], part: str) -> list[str]:
    """Words of the one line that holds `part`."""
    (line,) = [line for line in found if part in line]
    return line.split()


def changed(**fields: object) -> LayerTable:
    known = {name: getattr(TABLE, name) for name in TABLE.__struct_fields__}
    return LayerTable(**(known | fields))


def test_the_title_says_phase_statistic_and_passes() -> None:
    assert text(TABLE)[0] == "phase decode, mean per layer, over 3 passes"


def test_the_title_says_when_numbers_do_not_add_up() -> None:
    assert text(changed(stat="p90"))[0] == (
        "phase decode, p90 (does not add up) per layer, over 3 passes"
    )


def test_the_title_says_when_no_phase_was_chosen() -> None:
    found = text(changed(phase=None, passes=[3, 4]))[0]
    assert found == "all phases (no phase known to all), mean per layer, over 3 / 4 passes"


def test_two_profiles_have_difference_and_ratio() -> None:
    assert words_of(text(TABLE), " qkv ")[:6] == [
        "attention", "qkv", "10.00", "15.00", "+5.00", "1.50",
    ]  # fmt: skip


def test_a_role_missing_on_one_side_is_blank_there() -> None:
    assert words_of(text(TABLE), "all_reduce") == ["attention", "all_reduce", "2.50", "nccl|x<y>"]


def test_counts_that_differ_stand_side_by_side() -> None:
    assert words_of(text(TABLE), "attention+dense")[1:5] == ["2", "/", "1", "layers"]


def test_kernels_of_a_role_stand_under_it_with_their_times() -> None:
    found = text(TABLE, kernels=True)
    at = next(i for i, line in enumerate(found) if "qkv" in line)
    assert [line.split() for line in found[at + 1 : at + 4]] == [
        ["9.50", "nvjet"], ["0.50", "1.00", "+0.50", "2.00", "splitk"], ["14.00", "Cijk"],
    ]  # fmt: skip


def test_one_profile_has_no_difference() -> None:
    single = LayerTable(
        ["a"], "decode", "layer", "mean", [1], [9.0], [9.0], [0.0], [0.0], [0.0], [], [],
        LayerCoverage([100.0], [100.0], [50.0]), [], [[]],
    )  # fmt: skip
    assert "diff µs" not in "\n".join(text(single))


def test_an_empty_group_outside_the_layers_is_not_shown() -> None:
    assert not [line for line in text(TABLE) if "prologue" in line]


def test_coverage_is_not_rounded_up() -> None:
    assert text(TABLE, width=200)[-1] == (
        "coverage of the phase's GPU time: a: placed 100.0 %, with role 99.5 %, sure 80.0 %; "
        "b: placed 99.9 %, with role 99.0 %, sure 0.0 %"
    )


def test_markdown_is_a_table_whose_cells_are_escaped() -> None:
    found = markdown_layers(TABLE).splitlines()
    assert found[2] == "| group | role | kernel | a µs | b µs | diff µs | ratio |"
    assert found[3] == "|---|---|---|--:|--:|--:|--:|"
    assert "| attention | qkv | XAttention.Linear | 10.00 | 15.00 | +5.00 | 1.50 |" in found
    assert "|  |  | `nccl\\|x<y>` | 2.50 |  |  |  |" in found


def test_csv_has_the_numbers_as_they_are() -> None:
    exact = changed(end_to_end_us=[1250.123456789, 1000.0])
    rows = list(csv.reader(io.StringIO(csv_layers(exact))))
    assert rows[0] == ["kind", "group", "role", "kernel", "a us", "b us"]
    assert rows[1] == ["", "end to end", "", "", "1250.123456789", "1000.0"]
    assert ["attention+dense", "attention", "all_reduce", "", "2.5", ""] in rows


@pytest.mark.parametrize(
    ("per", "expected"), [("layer", "layer"), ("call", "layer"), ("step", "step")]
)
def test_sums_are_per_layer_unless_per_step(per: str, expected: str) -> None:
    (kind,) = [x for x in lines(changed(per=per), kernels=False) if x.group == "attention+dense"]
    assert kind.kernel == f"sum per {expected}"


def test_a_kernel_that_both_have_is_one_line_with_its_ratio() -> None:
    found = text(TABLE, kernels=True)
    assert words_of(found, "splitk") == ["0.50", "1.00", "+0.50", "2.00", "splitk"]
    assert words_of(found, "Cijk") == ["14.00", "Cijk"]


def test_kernels_keep_their_names_in_a_narrow_terminal() -> None:
    wide = changed(profiles=["a" * 20, "b" * 20])
    found = [line.split() for line in text(wide, width=80, kernels=True)]
    assert ["0.50", "1.00", "2.00", "splitk"] in found


def test_modules_stand_beside_the_role_of_their_kernels() -> None:
    assert words_of(text(TABLE, kernels=True), "qkv")[-1] == "XAttention.Linear"


def test_overlapped_time_is_listed_by_what_hides_under_what() -> None:
    pairs = [Overlap(f"role{n}", "attention", [10.0 - n, 0.0]) for n in range(10)]
    found = text(changed(overlaps=pairs, overlapped_us=[55.0, 0.0]))
    assert words_of(found, "role0")[-2:] == ["under", "attention"]
    assert words_of(found, "2 other pairs")[:3] == ["overlapped", "other", "3.00"]


def test_a_ratio_to_nothing_is_left_out() -> None:
    assert words_of(text(TABLE), "unattributed") == ["unattributed", "0.00", "0.00", "+0.00"]


ALONE = changed(
    profiles=["a"],
    passes=[3],
    end_to_end_us=[100.0],
    layers_us=[25.0],
    idle_us=[75.0],
    layer_kinds=[
        LayerKind("dense", [2], [12.5], [Group("mlp", [12.5], [
            Row("up", None, [["k"]], [[]], [10.0], [[KernelTime("k", 10.0)]]),
            Row("down", None, [["d"]], [[]], [2.5], [[KernelTime("d", 2.5)]]),
        ])]),
    ],
    coverage=LayerCoverage([100.0], [100.0], [50.0]),
    warnings=[[]],
)  # fmt: skip


def test_bars_are_shares_of_one_layer_inside_it_and_of_the_pass_outside() -> None:
    text = printed(
        layers_parts, ALONE, width=100, color=False, kernels=False, draw=True
    ).splitlines()
    drawn = {tuple(line.split()[:2]): line.count("█") for line in text}
    assert drawn["end", "to"] == 12
    assert drawn["layers", "2"] == 3
    assert drawn["dense", "2"] == 12
    # 80 % and 20 % of 12 cells: 9.6 and 2.4, the rest of a cell is another character.
    assert (drawn["mlp", "up"], drawn["mlp", "down"]) == (9, 2)
    assert drawn["idle", "75.00"] == 9


def test_times_of_single_calls_have_no_share_of_a_layer() -> None:
    single = msgspec.structs.replace(ALONE, per="call")
    text = printed(layers_parts, single, width=100, color=False, kernels=False, draw=True)
    assert {line.split()[0] for line in text.splitlines() if "█" in line} == {
        "end",
        "layers",
        "idle",
    }


def test_several_profiles_have_no_bars() -> None:
    text = printed(layers_parts, TABLE, width=200, color=False, kernels=False, draw=True)
    assert "█" not in text


def test_nothing_is_drawn_unless_asked_for() -> None:
    assert "█" not in printed(layers_parts, ALONE, width=100, color=True, kernels=False)
