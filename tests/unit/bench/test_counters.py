"""Counters of kernels beside the bound: exports of Nsight Compute, and a call under a profiler."""

from __future__ import annotations

import csv
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from solscope.bench import counters as profiled
from solscope.bench.catalog import find_solution
from solscope.bench.counters import chosen_kernels, counters, record
from solscope.bench.one_call import bound_call, kernels_of
from solscope.bench.results import ncu_export
from solscope.bench.results.ncu_export import Launch, parse_export, read_export
from solscope.bench.workloads import Workload, workloads
from solscope.cli import run
from solscope.errors import InputError, MissingToolError, UsageError
from solscope.hardware import find
from tests.json_output import document

ABOUT = '"4242","python3.12","127.0.0.1"'
WHERE = '"1","7","(128, 1, 1)","(26628, 1, 1)","0","9.0"'
HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC"'
)
RAW = f'{HEADER},"gpu__time_duration.sum"\n' + '"",' * 11 + '"us"'
"""The head of a raw page with one metric, and its row of units."""
PREAMBLE = """==PROF== Connected to process 4242 (/usr/bin/python3.12)
the program prints a line, "quoted"
==PROF== Profiling "add" - 0: 0%....50%....100% - 2 passes
"""


def details(*rows: tuple[int, str, str, str, str]) -> str:
    """The details page: a row per launch and metric, with columns of rules at the end."""
    lines = [
        f'"{number}",{ABOUT},"{kernel}",{WHERE},"Section","{metric}","{unit}","{value}",'
        for number, kernel, metric, unit, value in rows
    ]
    header = f'{HEADER},"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name"'
    return "\n".join([PREAMBLE + header, *lines, "==PROF== Disconnected from process 4242", ""])


EXPORT = details(
    (0, "void add<float, 4>(int)", "dram__bytes_read.sum", "Mbyte", "109.10"),
    (0, "void add<float, 4>(int)", "dram__bytes_write.sum", "Kbyte", "27,150.5"),
    (0, "void add<float, 4>(int)", "gpu__time_duration.sum", "us", "40.35"),
    (0, "void add<float, 4>(int)", "", "", ""),
    (1, "norm", "dram__bytes_read.sum", "Gbyte", "0.2"),
    (1, "norm", "dram__bytes_write.sum", "byte", "1,000,000"),
    (1, "norm", "gpu__time_duration.sum", "ns", "50,350"),
    (1, "norm", "sm__warps_active.avg.pct_of_peak_sustained_active", "%", "71.3"),
    (1, "norm", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "n/a"),
    (1, "norm", "launch__registers_per_thread", "register/thread", "32"),
)


def shape_18() -> Workload:
    (shape,) = [one for one in workloads()["fused_add_rms_norm"] if one.shape == "18"]
    return shape


def test_an_export_by_metrics_is_read_in_its_units() -> None:
    add, norm = parse_export(EXPORT, "a.csv")
    assert (add.kernel, add.time_us) == ("void add<float, 4>(int)", 40.35)
    assert add.dram_bytes == pytest.approx(136_250_500.0)
    assert norm.time_us == pytest.approx(50.35)
    assert norm.dram_bytes == pytest.approx(201e6)
    assert (norm.occupancy_pct, norm.sm_pct, norm.dram_pct) == (71.3, None, None)


def test_the_raw_page_has_its_units_in_a_second_row() -> None:
    text = "\n".join(
        [
            f'{HEADER},"dram__bytes_op_read.sum","dram__bytes_op_write.sum","gpu__time_duration.sum"',
            ",".join(['""'] * 11) + ',"Mbyte","byte","ms"',
            f'"0",{ABOUT},"norm",{WHERE},"1.5","2,000","0.25"',
            f'"1",{ABOUT},"norm",{WHERE},"1.5","n/a","0.5"',
        ]
    )
    first, second = parse_export(text, "raw.csv")
    assert first.dram_bytes == pytest.approx(1_502_000.0)
    assert first.time_us == 250.0
    assert (second.dram_bytes, second.time_us) == (None, 500.0), "half of the bytes is not known"


def test_sections_name_their_metrics_otherwise() -> None:
    text = details(
        (0, "gemm", "Duration", "ns", "406240"),
        (0, "gemm", "Achieved Occupancy", "%", "15.53"),
        (0, "gemm", "DRAM Throughput", "%", "0.74"),
        (0, "gemm", "Compute (SM) Throughput", "%", "23.59"),
        (0, "gemm", "Memory Throughput", "%", "21.68"),
    )
    (gemm,) = parse_export(text, "a.csv")
    assert gemm.time_us == pytest.approx(406.24)
    assert (gemm.dram_bytes, gemm.occupancy_pct) == (None, 15.53)
    assert (gemm.dram_pct, gemm.sm_pct) == (0.74, 23.59)


DATA = Path(__file__).parents[2] / "data"


def close(value: float | None) -> Any:
    return pytest.approx(value, rel=1e-3)


def test_both_pages_of_a_real_export_are_read_alike() -> None:
    """One call of torch on an H200 under `ncu --set full`: an addition, then a norm."""
    raw, sections = (read_export(DATA / f"ncu_{page}.csv") for page in ("raw", "details"))
    for launches in (raw, sections):
        assert ["vectorized_elementwise" in one.kernel for one in launches] == [True, False]
    add, norm = raw
    assert (add.time_us, add.dram_bytes, add.dram_pct) == (close(37.088), 140_999_680, 79.09)
    assert (norm.time_us, norm.occupancy_pct, norm.sm_pct) == (close(37.344), 80.29, 30.87)
    add, norm = sections
    assert (add.time_us, add.occupancy_pct, add.dram_pct) == (close(36.448), 62.61, 80.52)
    assert add.dram_bytes == close(3_871_353_819_139.60 * 36.448e-6), "sections show the rate"
    assert counters(shape_18(), sections, "file").bytes_ratio == pytest.approx(1.09, abs=0.01)


@pytest.mark.parametrize("page", ["raw", "details"])
def test_numbers_may_have_decimal_commas(page: str, tmp_path: Path) -> None:
    english = (DATA / f"ncu_{page}.csv").read_text(encoding="utf-8")
    table = [line for line in english.splitlines() if line.startswith('"')]
    rows = [
        [cell.translate(str.maketrans(",.", ".,")) if cell[:1].isdigit() else cell for cell in row]
        for row in csv.reader(table)
    ]
    file = tmp_path / "de.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    assert read_export(file) == read_export(DATA / f"ncu_{page}.csv")


def test_a_point_in_whole_numbers_groups_thousands() -> None:
    pairs = {
        "gpu__time_duration.sum": ("ns", "1.024"),
        "dram__bytes_read.sum": ("byte", "20.480"),
        "dram__bytes_write.sum": ("byte", "512"),
    }
    raw = [HEADER, '"",' * 10 + '""', f'"0",{ABOUT},"k",{WHERE}']
    for metric, cells in pairs.items():
        raw = [f'{line},"{cell}"' for line, cell in zip(raw, (metric, *cells), strict=True)]
    page = details(*((0, "k", metric, *cells) for metric, cells in pairs.items()))
    for text in (page, "\n".join(raw)):
        (launch,) = parse_export(text, "a.csv")
        assert (launch.time_us, launch.dram_bytes) == (close(1.024), 20_992)


@pytest.mark.parametrize(
    ("metric", "unit", "value"),
    [
        ("gpu__time_duration.sum", "us", "12.345"),
        ("dram__bytes_read.avg", "byte", "1.333"),
        ("dram__bytes_read.sum", "byte", "0.000"),
    ],
)
def test_a_point_elsewhere_is_a_decimal_point(metric: str, unit: str, value: str) -> None:
    text = details((0, "k", metric, unit, value), (0, "k", "Duration", "us", "12.345"))
    (launch,) = parse_export(text, "a.csv")
    assert launch.time_us == close(12.345)


@pytest.mark.parametrize("unit", ["byte/ns", "Pbyte/s"])
def test_a_rate_of_unknown_unit_is_not_known(unit: str) -> None:
    text = details((0, "k", "Duration", "us", "1.5"), (0, "k", "Memory Throughput", unit, "1.5"))
    (launch,) = parse_export(text, "a.csv")
    assert (launch.time_us, launch.dram_bytes) == (1.5, None)


def test_numbers_of_two_locales_are_refused() -> None:
    text = details(
        (0, "k", "gpu__time_duration.sum", "us", "1.024,5"),
        (0, "k", "DRAM Throughput", "%", "80.52"),
    )
    with pytest.raises(InputError, match=r"two locales in one table, 80.52 and 1.024,5"):
        parse_export(text, "a.csv")
    listed = details(
        (0, "k", "Enabled TPC IDs", "", "0,1"), (0, "k", "gpu__time_duration.sum", "us", "2.50")
    )
    assert parse_export(listed, "a.csv")[0].time_us == 2.5


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_none_of_the_table(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    table = EXPORT[EXPORT.index('"ID"') :]
    file.write_text(table, encoding=encoding)
    assert read_export(file) == parse_export(EXPORT, "a")


@pytest.mark.parametrize("value", ["inf", "nan", "-5", "1e400", "9e99", "1e-9", "0"])
def test_a_time_that_cannot_be_is_not_known(value: str) -> None:
    (one,) = parse_export(details((0, "k", "gpu__time_duration.sum", "us", value)), "a")
    assert one.time_us is None
    found = counters(shape_18(), [one, one], "file", hardware=find("H200"))
    assert (found.time_us, found.s) == (None, None)


def test_a_device_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Path("/dev/zero")
    if not endless.exists():
        pytest.skip("needs /dev/zero")
    monkeypatch.setattr(ncu_export, "MAX_BYTES", 1 << 20)
    with pytest.raises(InputError, match="over 1 MiB, too large"):
        read_export(endless)


def test_processes_number_their_launches_each_on_its_own() -> None:
    rows = [
        f'"0","{process}","python","{host}","k",{WHERE}'
        for process, host in ((1, "a"), (2, "a"), (1, "b"))
    ]
    header = f'{HEADER},"Metric Name","Metric Unit","Metric Value"'
    metrics = [f'"gpu__time_duration.sum","us","{time}"' for time in (3, 5, 7)]
    page = "\n".join([header, *map(",".join, zip(rows, metrics, strict=True))])
    assert [one.time_us for one in parse_export(page, "details.csv")] == [3.0, 5.0, 7.0]
    raw = "\n".join([RAW, *(f'{row},"{time}"' for row, time in zip(rows, (3, 5, 7), strict=True))])
    assert [one.time_us for one in parse_export(raw, "raw.csv")] == [3.0, 5.0, 7.0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no table of ncu"),
        ("kernel,time\na,1\n", "no table of ncu"),
        (HEADER, "has no kernels"),
        (
            details((0, "k", "gpu__time_duration.sum", "furlong", "1")),
            "'furlong', which is",
        ),
        (details((0, "k", "gpu__time_duration.sum", "ns", "one")), "'one', not a number"),
        (details((0, "k", "gpu__time_duration.sum", "ns", "1")) + '"1","1"\n', "row 2 .* cut off"),
        (f'{HEADER},"gpu__time_duration.sum"\n"",""\n', "row 1 .* cut off"),
        (f'{RAW}\n"0",{ABOUT},"norm",{WHERE}\n', "row 2 .* cut off"),
        (f'{RAW}\n"0",{ABOUT},"norm",{WHERE},"12', "last row is incomplete"),
    ],
)
def test_what_is_no_export_is_said_in_a_line(text: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=what):
        read_export(file)


def test_bytes_are_set_beside_those_of_the_operator() -> None:
    found = counters(shape_18(), parse_export(EXPORT, "a"), "file", hardware=find("H200"))
    assert found.operator_bytes == 4 * 3804 * 7168 * 2 + 2 * 7168
    assert found.dram_bytes == pytest.approx(337_250_500.0)
    assert found.bytes_ratio == pytest.approx(337_250_500.0 / found.operator_bytes)
    assert found.time_us == pytest.approx(90.7)
    assert found.s == pytest.approx((found.bound_us or 0) / 90.7)
    assert [one.kernel for one in found.kernels] == ["norm", "void add<float, 4>(int)"]
    assert found.findings[0].startswith("it moves 1.55x the bytes: 337.3 MB, the operator needs")
    assert found.findings[1].startswith("2 launches per call")
    assert found.findings[2] == "its kernels reach 77 % of the HBM bandwidth"


def test_fewer_bytes_than_the_operator_needs_are_no_praise() -> None:
    few = counters(shape_18(), [Launch("k", 10.0, dram_bytes=1e6)], "file")
    assert few.findings[0].startswith("fewer bytes were counted than the operator needs: 1.0 MB,")
    assert "caches held the rest" in few.findings[0]
    exact = counters(shape_18(), [Launch("k", 10.0, dram_bytes=few.operator_bytes)], "file")
    assert exact.findings[0].startswith("it moves no more bytes than it must")


def test_several_calls_are_divided_and_one_lost_counter_makes_the_sum_unknown() -> None:
    launches = parse_export(EXPORT, "a")
    twice = counters(shape_18(), [*launches, *launches], "file", calls=2)
    assert twice.dram_bytes == pytest.approx(337_250_500.0)
    assert [one.launches for one in twice.kernels] == [1, 1]
    lost = counters(shape_18(), [*launches, Launch("other", 1.0)], "file")
    assert (lost.dram_bytes, lost.bytes_ratio, lost.bound_us) == (None, None, None)
    assert lost.time_us == pytest.approx(91.7)


def test_kernels_are_chosen_by_a_pattern() -> None:
    launches = parse_export(EXPORT, "a")
    assert [one.kernel for one in chosen_kernels(launches, "^norm$")] == ["norm"]
    with pytest.raises(UsageError, match=r"no kernel matches 'gemm' .there are: void add"):
        chosen_kernels(launches, "gemm")
    with pytest.raises(UsageError, match="--kernel"):
        chosen_kernels(launches, "(")


def test_an_export_is_shown_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(EXPORT, encoding="utf-8")
    what = ["bench", "profile", "fused_add_rms_norm", "18", "--from", str(file)]
    assert run([*what, "--hardware", "H200", "--json"]) == 0
    assert document(capsys.readouterr().out)["limiter"] == "hbm"
    assert run(what) == 0
    out = capsys.readouterr().out
    assert "it moves 1.55x the bytes" in out
    assert "no bound: no hardware file describes this device; --hardware names a GPU" in out
    assert run([*what[:3], "nothing", *what[4:]]) == 2
    assert run([*what[:3], "top2", *what[4:]]) == 2
    assert run(what[:4]) == 2
    assert "--solution, or a file with --from" in capsys.readouterr().err


# --- Recording


def fake_ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    ncu = folder / "ncu"
    ncu.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_one_call_runs_under_ncu_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = tmp_path / "export.csv"
    export.write_text(EXPORT, encoding="utf-8")
    fake_ncu(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/asked; cat {export}')
    launches, tool = record(shape_18(), find_solution("torch-eager"))
    assert (tool, [one.kernel for one in launches]) == ("ncu", ["void add<float, 4>(int)", "norm"])
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "--profile-from-start off" in asked
    assert "dram__bytes_read.sum,dram__bytes_write.sum" in asked
    assert "-m solscope.bench.one_call" in asked
    assert '"tokens": 3804' in asked


def test_what_ncu_says_when_it_fails_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path, monkeypatch, "echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1")
    with pytest.raises(MissingToolError, match=r"ncu failed .exit code 1.: ==ERROR== ERR_NVGPUCTR"):
        record(shape_18(), find_solution("torch-eager"))


def test_a_solution_that_raises_is_no_missing_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = "Traceback (most recent call last):\\n  File x\\nValueError: odd"
    script = f"printf '{raised}\\n' >&2; echo '==ERROR== returned an error code (1).'; exit 1"
    fake_ncu(tmp_path, monkeypatch, script)
    with pytest.raises(InputError, match=r"the solution failed: .*ValueError: odd"):
        record(shape_18(), find_solution("torch-eager"))


def test_a_call_that_hangs_ends_with_its_profiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fake_ncu(tmp_path, monkeypatch, f"sleep 60 > {pipe} & wait")
    monkeypatch.setattr(profiled, "TIMEOUT_S", 0.5)
    with pytest.raises(InputError, match="ncu did not end within"):
        record(shape_18(), find_solution("torch-eager"))
    end = time.monotonic() + 20
    while is_open(reader):
        assert time.monotonic() < end, "the call that ncu started is still there"
        time.sleep(0.01)
    os.close(reader)


def is_open(reader: int) -> bool:
    """Whether some process can still write to a pipe."""
    try:
        return os.read(reader, 1) != b""
    except BlockingIOError:
        return True


def test_without_ncu_kineto_gives_times(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = {
        "traceEvents": [
            {"cat": "kernel", "name": "b", "ts": 9.0, "dur": 2, "args": {}},
            {"cat": "cpu_op", "name": "aten::add", "ts": 1.0, "dur": 3},
            {
                "cat": "kernel",
                "name": "a",
                "ts": 5.0,
                "dur": 1.5,
                "args": {"est. achieved occupancy %": 43},
            },
        ]
    }
    printed = msgspec_json(kernels_of(trace))
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(profiled, "_printed", lambda *_: f"a warning\n{printed}\n")
    launches, tool = record(shape_18(), find_solution("torch-eager"))
    assert tool == "kineto"
    assert launches == [Launch("a", 1.5, occupancy_pct=43.0), Launch("b", 2.0)]
    monkeypatch.setattr(profiled, "_printed", lambda *_: "")
    with pytest.raises(InputError, match="printed no kernels"):
        record(shape_18(), find_solution("torch-eager"))


def msgspec_json(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def test_the_call_has_what_prepare_and_setup_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("SOLSCOPE_BUILD_FOLDER", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\n"
        "def prepare(weight): return weight.float()\n"
        "def setup(x, weight, eps):\n"
        "    assert x.is_meta and weight.is_meta, 'values are none of what a server knows'\n"
        "    return x.shape\n"
        "def run(x, weight, eps, prepared, plan):\n"
        "    assert plan == x.shape\n"
        "    scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)\n"
        "    return (x.float() * scale * prepared).to(x.dtype)\n",
        encoding="utf-8",
    )
    asked = {
        "operator": "rms_norm",
        "axes": {"tokens": 3, "hidden": 8},
        "file": str(file),
        "build": str(tmp_path),
        "compile": False,
    }
    out = bound_call(asked, "cpu")()
    assert out.shape == torch.Size([3, 8])
