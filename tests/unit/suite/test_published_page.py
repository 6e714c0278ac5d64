"""The suite as its public page prints it, all rows and all shapes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from solscope.cli import run
from solscope.errors import UsageError
from solscope.report.results.suite.published import intensity_text, micro_text, percent_text
from solscope.suite import suite_list, suite_medians, suite_roofline, suite_shapes
from solscope.suite.published import half_up, s_pct, upper_median
from tests.printing import as_published

ROOT = Path(__file__).parents[3]
EXPECTED: dict[str, Any] = json.loads((ROOT / "tests/data/suite_page.json").read_text("utf-8"))
"""What the page prints, copied: `list`, `roofline`, `median` and `s` by operator."""
NAMES = list(EXPECTED["list"])


def parse_page(text: str) -> dict[str, Any]:
    """The printed figures of the page's three tables."""
    listed, roofline, median = {}, {}, {}
    s: dict[str, dict[str, str]] = {}
    current = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip(" |").split("|")]
        if found := re.fullmatch(r"(\w+) (atrex_\d+)", cells[0]):
            listed[found[1]] = [found[2], cells[1], int(cells[2]), cells[3]]
        elif len(cells) == 6 and cells[1] in ("C", "M", "I"):
            roofline[cells[0]] = cells[1:]
        elif cells[0] == "▶":
            current = cells[1]
            median[current], s[current] = cells[3], {}
        elif found := re.match(r"#(\d+) ", cells[0]):
            s[current][found[1]] = cells[1]
    return {"list": listed, "roofline": roofline, "median": median, "s": s}


def test_the_copy_is_that_of_the_seed() -> None:
    seeds = sorted((ROOT.parent / "shared" / "seeds").glob("000_*.txt"))
    if not seeds:
        pytest.skip("the page is not beside this checkout")
    assert parse_page(seeds[0].read_text("utf-8")) == EXPECTED


def test_the_page_has_30_operators_and_440_shapes() -> None:
    assert len(NAMES) == len(EXPECTED["roofline"]) == len(EXPECTED["s"]) == 30
    assert sum(map(len, EXPECTED["s"].values())) == 440


def test_list_is_the_first_table() -> None:
    # The page writes percentages without a space.
    printed = {
        row.operator: [
            row.id,
            row.dtype,
            row.shapes,
            percent_text(row.importance_pct).replace(" ", ""),
        ]
        for row in suite_list()
    }
    assert printed == EXPECTED["list"]
    assert list(printed) == NAMES


def test_corrected_roofline_has_the_times_of_our_costs() -> None:
    by_name = {row.operator: row for row in suite_roofline(bound="corrected")}
    published = {row.operator: row for row in suite_roofline()}
    # The whole cache is counted as published: at least half as much again.
    times = [rows["reshape_and_cache"].sol_us["H20"] for rows in (published, by_name)]
    assert (times[0] or 0) >= 1.5 * (times[1] or 0) > 0
    assert by_name["rms_norm"].sol_us == pytest.approx(published["rms_norm"].sol_us)
    assert by_name["rms_norm"].regime == published["rms_norm"].regime


@pytest.mark.parametrize("name", NAMES)
def test_roofline_is_the_second_table(name: str) -> None:
    (row,) = (row for row in suite_roofline() if row.operator == name)
    assert [
        row.regime,
        intensity_text(row.intensity),
        as_published(micro_text(row.sol_us["H20"])),
        as_published(micro_text(row.sol_us["XPU-A"])),
        as_published(micro_text(row.prod_us, 0), 0, 1),
    ] == EXPECTED["roofline"][name]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_the_third_table(name: str) -> None:
    rows = suite_shapes(name, ["XPU-A"])
    assert {str(row.id): f"{row.s_pct:.1f}%" for row in rows} == EXPECTED["s"][name]
    assert f"{upper_median([row.s_pct for row in rows]):.1f}%" == EXPECTED["median"][name]


def test_exact_s_is_not_rounded() -> None:
    rows = [row for name in NAMES for row in suite_shapes(name, ["XPU-A"])]
    differ = [row for row in rows if abs(row.s_exact_pct - row.s_pct) > 0.05 + 1e-9]
    assert 0 < len(differ) < 70
    assert max(abs(row.s_exact_pct - row.s_pct) for row in rows) < 0.2


def test_importance_sums() -> None:
    rows = suite_list()
    assert sum(row.importance_pct for row in rows) == pytest.approx(109.478)
    assert sum(row.importance_norm_pct for row in rows) == pytest.approx(100)


def test_rounding_is_half_up_of_the_stored_number() -> None:
    # 0.125 -> 0.13 and 0.25 -> 0.3: 43.33... %, where half-even would give 0.12 / 0.2 = 60 %.
    assert s_pct(0.125, 0.25) == 43.3
    # 9.95 is 9.949999... in binary: 0.52 / 9.9 = 5.25 %, not 0.52 / 10 = 5.2 %.
    assert s_pct(0.5225298113207548, 9.95) == 5.3
    # 100 x 19.45 / 100 is 19.449999... in binary.
    assert s_pct(19.452184150943395, 100.02) == 19.4
    assert [str(half_up(value, 1)) for value in (0.25, 2.75, 0.15)] == ["0.3", "2.8", "0.1"]


def test_times_of_a_column_have_one_unit() -> None:
    times = (None, 0.0, 0.004, 0.005, 999.994, 104_968.187)
    assert [micro_text(value) for value in times] == [
        "-", "0.00", "<0.01", "0.01", "999.99", "104,968.19",
    ]  # fmt: skip
    assert [as_published(text) for text in ("<0.01", "999.99", "104,968.19")] == [
        "0.00 us", "999.99 us", "104.97 ms",
    ]  # fmt: skip


def test_any_other_hardware_by_any_case() -> None:
    row = suite_roofline(["h200", "H200", "XPU-A"])[0]
    assert list(row.sol_us) == ["H200", "XPU-A"]
    assert row.sol_us["H200"] is not None
    assert row.sol_us["XPU-A"] is not None
    assert row.sol_us["H200"] < row.sol_us["XPU-A"]


def test_hardware_without_the_dtype_has_no_time() -> None:
    row = suite_shapes("block_scaled_mm", ["A100-80"])[0]
    assert row.sol_us == row.corrected_sol_us == {"A100-80": None}


def test_unknown_operator_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'rms_norm'"):
        suite_shapes("rmsnorm")


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["suite", *arguments]) == 0
    return capsys.readouterr().out


def test_json_of_list(capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads(output(capsys, "list", "--json"))["operators"][0]
    assert first["importance_norm_pct"] == pytest.approx(39.4972 / 1.09478)
    del first["importance_norm_pct"]
    assert first == {
        "operator": "unified_attention",
        "id": "atrex_030",
        "dtype": "bf16",
        "shapes": 25,
        "importance_pct": pytest.approx(39.4972),
    }


def test_json_of_roofline(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(output(capsys, "roofline", "--json", "--hardware", "H20,H200"))["operators"]
    assert len(rows) == 30
    assert set(rows[0]) == {
        "operator",
        "id",
        "dtype",
        "shapes",
        "importance_pct",
        "importance_norm_pct",
        "regime",
        "intensity",
        "sol_us",
        "prod_us",
    }
    assert list(rows[0]["sol_us"]) == ["H20", "H200"]


def test_sizes_of_shapes_are_whole_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["suite", "shapes", "rms_norm"]) == 0
    said = capsys.readouterr().out
    assert "tokens=3804" in said
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 80


def test_json_of_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(output(capsys, "shapes", "unified_attention", "--json"))["shapes"]
    assert set(rows[0]) == {
        "id",
        "axes",
        "description",
        "sol_us",
        "prod_us",
        "s_pct",
        "s_exact_pct",
        "corrected_sol_us",
    }
    assert rows[0]["axes"] == {
        "sequences": [[256, 256, 130]],
        "q_heads": 10,
        "kv_heads": 1,
        "head_dim": 128,
        "block_size": 16,
    }


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("words", [["list"], ["roofline"], ["shapes", "fused_moe"]])
def test_tables_fit_the_terminal(
    words: list[str],
    width: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert max(map(len, output(capsys, *words).splitlines())) <= width


def test_no_hardware_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "roofline", "--hardware", ","]) == 2
    assert "expected at least one GPU" in capsys.readouterr().err


def test_medians_are_the_third_table() -> None:
    rows = suite_medians()
    printed = {row.operator: percent_text(row.s_median_pct).replace(" ", "") for row in rows}
    assert printed == EXPECTED["median"]
    assert [row.s_median_pct for row in rows] == sorted(row.s_median_pct for row in rows)
    assert all(row.s_low_pct <= row.s_median_pct <= row.s_high_pct for row in rows)


def test_medians_are_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "shapes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.split(" ")[0] in NAMES]) == 30
    assert run(["suite", "shapes", "--suite", "decode"]) == 2
