from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solscope.errors import DamagedFileError, LimitError
from solscope.profile import Profile
from solscope.readers import nsys_stats
from solscope.readers.base import Head, ReadOptions
from solscope.readers.nsys_stats import READER

SHARED = Path(__file__).parents[4] / "shared"
SEED = SHARED / "seeds" / "002_9d4567749f1494f6.txt"
NSYS = SHARED / "data" / "nsys"

CSV_HEADER = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
)
GEMM = '75.0,3000,2,1500.0,1500.0,1000,2000,707.1,"void gemm<1, 2>(int, float)"'
COPY = "25.0,1000,1,1000.0,1000.0,1000,1000,0.0,copy"
TEXT_REPORT = """\
Processing [run.sqlite] with [/opt/nsys/reports/cuda_api_sum.py]...

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----
    100.0        9,000,000          3   3,000.0   3,000.0     1,000     5,000        100.0  cudaSync

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----
    100.0        1,266,000      1,192   1,062.1   1,000.0       900     2,000        100.5  f<1, 2>

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  Operation
 --------  ---------------  -----  --------  --------  --------  --------  ---------
     90.0              900      1     900.0     900.0       900       900  [CUDA memcpy HtoD]
     10.0              100      1     100.0     100.0       100       100  [CUDA memset]

 ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):

 Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)  Operation
 ----------  -----  --------  --------  --------  --------  -----------  ---------
      1.000      1     1.000     1.000     1.000     1.000        0.000  [CUDA memset]
"""


def read(tmp_path: Path, text: str | bytes) -> Profile:
    path = tmp_path / "stats.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return READER.read(path, ReadOptions())


def sniff(text: str | bytes) -> bool:
    return READER.sniff(Head(Path("x"), text if isinstance(text, bytes) else text.encode()))


def rows(profile: Profile) -> list[tuple[Any, ...]]:
    return profile.aggregates.select("kind", "name", "calls", "total_ns").rows()


def codes(profile: Profile) -> list[str]:
    return [warning.code for warning in profile.warnings]


GOOD_ROWS = [("kernel", "void gemm<1, 2>(int, float)", 2, 3000), ("kernel", "copy", 1, 1000)]


def test_csv_with_quoted_commas(tmp_path: Path) -> None:
    profile = read(tmp_path, f"{CSV_HEADER}\n{GEMM}\n{COPY}\n")
    assert rows(profile) == GOOD_ROWS
    assert profile.aggregates.row(0)[4:] == (1500.0, 1500.0, 1000, 2000, 707.1)
    assert profile.warnings == ()


def test_csv_with_bom_crlf_and_preamble(tmp_path: Path) -> None:
    preamble = "Processing [x.sqlite] with [cuda_gpu_kern_sum.py]..."
    text = f"\ufeff{preamble}\r\n{CSV_HEADER}\r\n{GEMM}\r\n{COPY}\r\n"
    profile = read(tmp_path, text)
    assert rows(profile) == GOOD_ROWS
    assert profile.warnings == ()


def test_utf16_from_powershell(tmp_path: Path) -> None:
    data = f"{CSV_HEADER}\r\n{COPY}\r\n".encode("utf-16")
    assert sniff(data)
    assert rows(read(tmp_path, data)) == [("kernel", "copy", 1, 1000)]


def test_text_report_tells_reports_apart(tmp_path: Path) -> None:
    profile = read(tmp_path, TEXT_REPORT)
    assert rows(profile) == [
        ("kernel", "f<1, 2>", 1192, 1_266_000),
        ("memcpy", "[CUDA memcpy HtoD]", 1, 900),
        ("memset", "[CUDA memset]", 1, 100),
    ]
    assert codes(profile) == ["ignored_tables"]
    assert "2 rows" in profile.warnings[0].message
    assert "host calls, sizes" in profile.warnings[0].message


def test_markdown_table(tmp_path: Path) -> None:
    text = "| Time | Total Time | Instances | Name |\n|---:|---:|--:|---|\n"
    profile = read(tmp_path, text + "| 57.0% | 1.266 s | 192 | `f<1, 2>` |\n")
    assert rows(profile) == [("kernel", "f<1, 2>", 192, 1_266_000_000)]


def test_paste_whose_tabs_became_single_spaces(tmp_path: Path) -> None:
    text = "Time Total Time Instances Avg Name\n57.0% 1.266 s 192 6.596 ms void f<1, 2>(s x)\n"
    assert rows(read(tmp_path, text)) == [("kernel", "void f<1, 2>(s x)", 192, 1_266_000_000)]


def test_summary_by_grid_after_the_summary_is_not_counted_again(tmp_path: Path) -> None:
    by_grid = CSV_HEADER.replace("Name", "GridXYZ,BlockXYZ,Name")
    half = "50.0,500,1,500,500,500,500,0,   8    1    1, 128    1    1,copy"
    profile = read(tmp_path, f"{CSV_HEADER}\n{COPY}\n\n{by_grid}\n{half}\n{half}\n")
    assert rows(profile) == [("kernel", "copy", 1, 1000)]
    assert codes(profile) == ["ignored_tables"]


def test_category_column_of_cuda_gpu_sum(tmp_path: Path) -> None:
    header = CSV_HEADER.replace("Name", "Category,Operation")
    body = (
        "50.0,10,1,10,10,10,10,0,CUDA_KERNEL,f\n50.0,10,1,10,10,10,10,0,MEMORY_OPER,[CUDA memset]\n"
    )
    assert rows(read(tmp_path, f"{header}\n{body}")) == [
        ("kernel", "f", 1, 10),
        ("memset", "[CUDA memset]", 1, 10),
    ]


@pytest.mark.parametrize(
    ("cell", "total_ns"),
    [
        ("1.266 s", 1_266_000_000),
        ("163.659 ms", 163_659_000),
        ("42.593 μs", 42_593),
        ("42.593 µs", 42_593),
        ("42.593us", 42_593),
        ("928 ns", 928),
        ("928", 928),
        ("1,234,567", 1_234_567),
    ],
)
def test_units_in_cells(tmp_path: Path, cell: str, total_ns: int) -> None:
    text = f"Time\tTotal Time\tInstances\tName\n1.0%\t{cell}\t1\tf\n"
    assert rows(read(tmp_path, text)) == [("kernel", "f", 1, total_ns)]


@pytest.mark.parametrize(("unit", "total_ns"), [("s", 2 * 10**9), ("ms", 2 * 10**6), ("us", 2000)])
def test_units_in_headers(tmp_path: Path, unit: str, total_ns: int) -> None:
    text = f"Time (%),Total Time ({unit}),Instances,Name\n1.0,2,1,f\n"
    assert rows(read(tmp_path, text)) == [("kernel", "f", 1, total_ns)]


def test_statistics_that_are_not_printed_are_null_but_the_mean(tmp_path: Path) -> None:
    profile = read(tmp_path, "Time\tTotal Time\tInstances\tName\n1.0%\t10 ns\t4\tf\n")
    assert profile.aggregates.row(0)[4:] == (2.5, None, None, None, None)


@pytest.mark.parametrize(
    "bad",
    [
        "1.0,-5,1,5,5,5,5,0,f",
        "1.0,5,-1,5,5,5,5,0,f",
        "1.0,5,0,5,5,5,5,0,f",
        "1.0,5,1.5,5,5,5,5,0,f",
        "nan,nan,nan,nan,nan,nan,nan,nan,f",
        "1.0,inf,1,5,5,5,5,0,f",
        "1.0,1e30,1,5,5,5,5,0,f",
        "1.0,99999999999999999999999,1,5,5,5,5,0,f",
        "900.0,5,1,5,5,5,5,0,f",
        "1.0,5,1,5,5,9,2,0,f",
        "1.0,5,1,5,5,5,5,0,",
        "1.0,5,1",
        "1.0,5,1,5,5,5,5,0,f,extra",
    ],
)
def test_damaged_row_is_skipped_and_counted(tmp_path: Path, bad: str) -> None:
    profile = read(tmp_path, f"{CSV_HEADER}\n{GEMM}\n{bad}\n{COPY}\n")
    assert rows(profile) == GOOD_ROWS
    assert codes(profile) == ["damaged_rows"]
    assert profile.warnings[0].message.startswith(
        "1 damaged rows, the first in line 3, were left out of the totals"
    )


def test_second_table_that_repeats_rows_is_counted_once(tmp_path: Path) -> None:
    new = COPY.replace("copy", "other")
    text = f"{CSV_HEADER}\n{GEMM}\n{COPY}\n\nagain:\n{CSV_HEADER}\n{COPY}\n{new}\n"
    profile = read(tmp_path, text)
    assert rows(profile) == [*GOOD_ROWS, ("kernel", "other", 1, 1000)]
    assert codes(profile) == ["ignored_text"]
    assert "1 lines, from line 5 on" in profile.warnings[0].message
    assert "1 rows of later tables repeat" in profile.warnings[0].message


def test_equal_rows_of_one_table_all_count(tmp_path: Path) -> None:
    profile = read(tmp_path, f"{CSV_HEADER}\n{COPY}\n{COPY}\n")
    assert profile.aggregates["total_ns"].sum() == 2000


def test_full_second_table_with_other_totals_counts(tmp_path: Path) -> None:
    text = f"{CSV_HEADER}\n{COPY}\n{CSV_HEADER}\n{COPY.replace('25.0,1000', '25.0,1001')}\n"
    assert read(tmp_path, text).aggregates["total_ns"].to_list() == [1000, 1001]


def test_only_host_calls_is_an_error_that_says_what_to_run(tmp_path: Path) -> None:
    text = CSV_HEADER.replace("Instances", "Num Calls") + "\n100.0,5,1,5,5,5,5,0,cudaSync\n"
    with pytest.raises(DamagedFileError, match=r"only host calls.*cuda_gpu_kern_sum"):
        read(tmp_path, text)


def test_no_good_row_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=r"no row .* line 2"):
        read(tmp_path, f"{CSV_HEADER}\n1.0,x\n")


def test_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_stats, "LIMIT_BYTES", 10)
    with pytest.raises(LimitError):
        read(tmp_path, f"{CSV_HEADER}\n{GEMM}\n")


@pytest.mark.parametrize("text", [f"{CSV_HEADER}\n{GEMM}\n", TEXT_REPORT, f"{CSV_HEADER}\n"])
def test_sniff_claims(text: str) -> None:
    assert sniff(text)


@pytest.mark.parametrize(
    "text",
    [
        "t_ns,metric,device,value\n1,oncpu_ns,Host,5\n",
        "cycle,pid,beta_pct,function_name,total_time\n1,2,3.0,f,4\n",
        '{"traceEvents": [{"name": "Time,Total Time,Instances,Name"}]}',
        "Total time of all instances by name was 5 s\nand that is all\n",
        'def header():\n    return "Time (%),Total Time (ns),Instances,Name"\n',
        "name,count,total\nf,1,2\n",
        "SQLite format 3\0",
        "",
    ],
)
def test_sniff_refuses(text: str) -> None:
    assert not sniff(text)


@pytest.mark.skipif(not SEED.exists(), reason="needs ../shared/seeds")
def test_seed_opens_as_it_is() -> None:
    profile = READER.read(SEED, ReadOptions())
    table = profile.aggregates
    assert (table.height, table["calls"].sum()) == (201, 37_254)
    assert table["total_ns"].sum() == 2_222_021_776
    assert [warning.message for warning in profile.warnings] == [
        "61 lines, from line 206 on, are not part of a table and were ignored; "
        "1 rows of later tables repeat kernels and were skipped"
    ]


@pytest.mark.skipif(not NSYS.exists(), reason="needs ../shared/data/nsys")
@pytest.mark.parametrize(
    ("stage", "names", "calls", "total_ns"),
    [("prefill", 97, 6660, 65_691_733), ("decode", 46, 78_016, 179_072_697)],
)
def test_real_csv(stage: str, names: int, calls: int, total_ns: int) -> None:
    path = NSYS / f"nsys_dsocr_per-stage_{stage}_cuda_gpu_kern_sum.csv"
    profile = READER.read(path, ReadOptions())
    table = profile.aggregates
    assert table["name"].n_unique() == table.height == names
    assert (table["calls"].sum(), table["total_ns"].sum()) == (calls, total_ns)
    assert profile.metadata.stage == stage
    assert profile.warnings == ()


SCALES = {"s": 10**9, "ms": 10**6, "μs": 10**3, "us": 10**3, "ns": 1}
LAYOUTS = ("csv", "tsv", "text", "markdown")
NAMES = st.from_regex(r"[a-z_]{2,8}(<[a-z0-9]{1,4}(, [a-z0-9]{1,4}){0,3}>)?", fullmatch=True)
ROWS = st.lists(
    st.tuples(NAMES, st.integers(1, 10**6), st.integers(0, 10**13)), min_size=1, max_size=6
)


def render(table: list[list[str]], layout: str) -> str:
    if layout == "csv":
        return "\n".join(",".join(f'"{cell}"' for cell in row) for row in table)
    if layout == "tsv":
        return "\n".join("\t".join(row) for row in table)
    if layout == "markdown":
        return "\n".join("| " + " | ".join(row) + " |" for row in table)
    return "\n".join(
        " " + "  ".join(cell.rjust(18) for cell in row[:-1]) + "  " + row[-1] for row in table
    )


@given(
    source=ROWS,
    unit=st.sampled_from(sorted(SCALES)),
    in_header=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    thousands=st.booleans(),
)
def test_rendered_rows_come_back_within_the_printed_rounding(
    tmp_path_factory: pytest.TempPathFactory,
    source: list[tuple[str, int, int]],
    unit: str,
    in_header: bool,
    layout: str,
    thousands: bool,
) -> None:
    scale = SCALES[unit]
    comma = "," if thousands else ""
    header = [
        "Time (%)",
        f"Total Time ({unit})" if in_header else "Total Time",
        "Instances",
        "Name",
    ]
    body = [
        [
            "1.0",
            f"{total / scale:{comma}.3f}" + ("" if in_header else f" {unit}"),
            f"{calls:{comma}}",
            name,
        ]
        for name, calls, total in source
    ]
    text = render([header, *body], layout)
    found = rows(read(tmp_path_factory.mktemp("stats"), text))
    assert [(name, calls) for _, name, calls, _ in found] == [row[:2] for row in source]
    for (*_, total_ns), (*_, expected) in zip(found, source, strict=True):
        assert abs(total_ns - expected) <= max(1, scale / 2000)
