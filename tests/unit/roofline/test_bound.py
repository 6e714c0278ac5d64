"""Bounds, each term worked by hand on a GPU of round numbers."""

from __future__ import annotations

import pytest

from solscope.hardware import Figure, Hardware, find
from solscope.operators.base import Cost, Published
from solscope.roofline import Bound, bound, published_bound

MB = 1e6
UNITS = {"bandwidth": "byte/s", "size": "byte", "floor": "s", "step": "s"}


def gpu(**figures: float) -> Hardware:
    """A GPU with these figures; `tensor_bf16` stands for `tensor.bf16`."""
    named = {
        written.replace("_", ".", 1): Figure(
            value,
            UNITS.get(written.rpartition("_")[2], "FLOP/s"),
            "made up for a test",
            "2026-01-01",
        )
        for written, value in figures.items()
    }
    # A bound looks figures up by name, whatever section they are in; peaks only for pipes.
    return Hardware("Test", "A GPU of round numbers", "nvidia", peaks=named)


ROUND = gpu(
    tensor_bf16=100e12,
    tensor_fp8=200e12,
    vector_fp32=10e12,
    sfu=1e12,
    hbm_bandwidth=1e12,
    l2_size=50 * MB,
    l2_bandwidth=5e12,
    launch_floor=1e-6,
    serial_step=2e-9,
)


def assert_limit(found: Bound, time_us: float, limiter: str) -> None:
    assert found.limiter == limiter
    assert found.time_us == pytest.approx(time_us, rel=1e-5)


def test_a_tensor_pipe_limits() -> None:
    # 1e9 FLOP / 100e12 FLOP/s = 10 us; 1 MB / 5e12 B/s = 0.2 us
    found = bound(Cost({"tensor.bf16": 1e9}, {"weights": 1 * MB}), ROUND)
    assert found.time_us == pytest.approx(10)
    assert found.limiter == "tensor.bf16"
    assert found.terms_us == pytest.approx({"tensor.bf16": 10, "l2": 0.2, "launch": 1})
    assert found.missing == []


def test_precisions_of_one_pipe_add_up() -> None:
    # 1e9/100e12 + 1e9/200e12 = 10 + 5 us
    found = bound(Cost({"tensor.bf16": 1e9, "tensor.fp8": 1e9}), ROUND)
    assert_limit(found, 15, "tensor")


def test_pipes_work_at_the_same_time() -> None:
    # 10 us on tensor cores beside 1e8/10e12 = 10 us of vector work: 10, not 20
    found = bound(Cost({"tensor.bf16": 1e9, "vector.fp32": 1e8}), ROUND)
    assert found.time_us == pytest.approx(10)


def test_vector_work_limits() -> None:
    # 1e9 / 10e12 = 100 us
    found = bound(Cost({"vector.fp32": 1e9}), ROUND)
    assert_limit(found, 100, "vector.fp32")


def test_special_functions_are_shared_with_idle_vector_units() -> None:
    # 1e9 of them: alone 1e9/1e12 = 1000 us; at 10 vector FLOP each, both units together do
    # 1e12 + 10e12/10 = 2e12 per second: 500 us
    found = bound(Cost({"sfu": 1e9}), ROUND)
    assert_limit(found, 500, "sfu")


def test_special_functions_gain_nothing_from_busy_vector_units() -> None:
    # vector work of 1000 us leaves no room: 1e9/1e12 = 1000 us as well
    found = bound(Cost({"sfu": 1e9, "vector.fp32": 1e10}), ROUND)
    assert found.terms_us == pytest.approx({"vector.fp32": 1000, "sfu": 1000, "launch": 1})


def test_hbm_limits_what_no_cache_holds() -> None:
    # (100 + 20) MB / 1e12 B/s = 120 us
    cost = Cost(read_bytes={"weights": 90 * MB, "index": 10 * MB}, write_bytes={"a": 20 * MB})
    found = bound(cost, ROUND)
    assert_limit(found, 120, "hbm")


def test_the_cache_limits_what_it_holds() -> None:
    # 33 MB fit in 50 MB: 33e6 / 5e12 = 6.6 us, and HBM says nothing
    found = bound(Cost(read_bytes={"weights": 33 * MB}), ROUND)
    assert_limit(found, 6.6, "l2")
    assert "hbm" not in found.terms_us


def test_writes_may_go_where_reads_came_from() -> None:
    # 40 MB in, 40 MB out: in place, 40 MB fit. 80e6 / 5e12 = 16 us
    found = bound(Cost(read_bytes={"state": 40 * MB}, write_bytes={"state": 40 * MB}), ROUND)
    assert_limit(found, 16, "l2")


def test_a_cache_of_unknown_speed_is_no_faster_than_loads() -> None:
    # 132 SMs x 128 B x 1.98 GHz = 33.454 TB/s: 33e6 / 33.454e12 = 0.98643 us
    hopper = find("H200")
    assert hopper.value("l2.bandwidth") is None
    found = bound(Cost(read_bytes={"weights": 33 * MB}), hopper)
    assert_limit(found, 0.98643, "l1")
    assert found.missing == ["l2", "launch"]


def test_without_any_figure_there_is_no_bound() -> None:
    found = bound(Cost(read_bytes={"weights": 33 * MB}), find("MI355X"))
    assert found.time_us is None
    assert found.limiter is None
    assert found.missing == ["l2", "launch"]
    assert found.score(10.0) is None


def test_the_outer_cache_holds_what_the_inner_cannot() -> None:
    # MI300X: 100 MB exceed 32 MB of L2, fit in 256 MB of Infinity Cache: 100e6 / 17.2e12 = 5.814 us
    found = bound(Cost(read_bytes={"weights": 100 * MB}), find("MI300X"))
    assert_limit(found, 5.81395, "llc")
    # 300 MB fit in neither: 300e6 / 5.325e12 = 56.338 us
    found = bound(Cost(read_bytes={"weights": 300 * MB}), find("MI300X"))
    assert_limit(found, 56.33803, "hbm")


def test_cold_caches_send_all_reads_to_hbm() -> None:
    # 33 MB / 1e12 = 33 us; 20 MB of writes can stay in 50 MB of L2
    cost = Cost(read_bytes={"weights": 33 * MB}, write_bytes={"a": 20 * MB})
    assert bound(cost, ROUND, cold=True).time_us == pytest.approx(33)


def test_cold_caches_hold_only_some_writes() -> None:
    # 80 MB written, 50 MB held: 30 MB / 1e12 = 30 us
    found = bound(Cost(write_bytes={"a": 80 * MB}), ROUND, cold=True)
    assert_limit(found, 30, "hbm")


def test_a_gpu_without_cache_sizes_has_hbm_only() -> None:
    # 5.3 MB / 5.3e12 = 1 us
    found = bound(Cost(read_bytes={"weights": 5.3 * MB}), find("XPU-A"))
    assert_limit(found, 1, "hbm")


def test_links_limit() -> None:
    # 900 MB in one direction; 900 GB/s count both: 2 x 900e6 / 900e9 = 2000 us
    found = bound(Cost(link_bytes=900 * MB), find("H200"))
    assert_limit(found, 2000, "interconnect")


def test_the_way_to_the_host_limits() -> None:
    # 64 MB from the host over PCIe 5, 64 GB/s in one direction: 1000 us
    found = bound(Cost(write_bytes={"a": 64 * MB}, host_bytes=64 * MB), find("H200"))
    assert_limit(found, 1000, "host")


def test_a_gpu_without_links_has_no_such_term() -> None:
    # 80 MB exceed 48 MB of L2: 80e6 / 300e9 = 266.67 us from memory
    found = bound(Cost(read_bytes={"a": 80 * MB}, link_bytes=80 * MB), find("L4"))
    assert_limit(found, 266.66667, "hbm")
    assert "interconnect" in found.missing


def test_nothing_is_faster_than_an_empty_kernel() -> None:
    found = bound(Cost(read_bytes={"index": 8}), ROUND)
    assert_limit(found, 1, "launch")


def test_a_chain_limits() -> None:
    # 8192 steps x 2 ns = 16.384 us
    found = bound(Cost({"tensor.bf16": 1e6}, serial_steps=8192), ROUND)
    assert_limit(found, 16.384, "serial")


def test_a_chain_on_an_a100() -> None:
    # one dependent addition takes 4 cycles at 1.41 GHz: 1000 steps take 2.837 us
    found = bound(Cost(serial_steps=1000), find("A100-80"))
    assert_limit(found, 2.83688, "serial")


def test_what_the_gpu_lacks_is_named() -> None:
    cost = Cost({"tensor.fp8": 1e9, "tensor.bf16": 1e9, "sfu": 5.0}, serial_steps=3)
    found = bound(cost, gpu(tensor_bf16=100e12))
    assert found.time_us == pytest.approx(10), "the known part is still a bound"
    assert found.missing == ["tensor.fp8", "sfu", "launch", "serial"]


def test_a_call_that_does_nothing() -> None:
    assert bound(Cost(), gpu()).time_us is None
    assert bound(Cost(), ROUND).limiter == "launch"


def test_score_is_bound_over_time() -> None:
    found = bound(Cost({"tensor.bf16": 1e9}), ROUND)
    assert found.score(20.0) == pytest.approx(0.5)


def test_gemm_on_h100() -> None:
    # mm 8944x2816x1024 in bf16: 2*m*n*k = 51.58 GFLOP; 51.58e9 / 989.4e12 = 52.133 us.
    # Bytes: 2*(m*k + k*n + m*n) = 18.317 + 5.767 + 50.373 MB = 74.457 MB.
    # Reads are 24.085 MB, writes 50.373 MB: that fits in 50 MiB, so HBM sets no limit.
    m, n, k = 8944, 2816, 1024
    cost = Cost(
        {"tensor.bf16": 2.0 * m * n * k},
        {"activations": 2.0 * m * k, "weights": 2.0 * k * n},
        {"activations": 2.0 * m * n},
    )
    h100 = find("H100")

    found = bound(cost, h100)

    assert cost.flop == 51_581_550_592
    assert cost.bytes == 74_457_088
    assert (h100.value("tensor.bf16"), h100.value("hbm.bandwidth")) == (989.4e12, 3.35e12)
    assert_limit(found, 52.134, "tensor.bf16")
    # With all bytes from HBM: 74.457e6 / 3.35e12 = 22.226 us, still below the tensor cores.
    assert bound(cost, h100, published=True).terms_us["hbm"] == pytest.approx(22.226, abs=0.001)
    # The call took 84.5 us (its memset included): 610.4 TFLOP/s, 61.7 % of the bound.
    assert found.score(84.5) == pytest.approx(0.617, abs=0.0005)


def test_published_adds_all_work_and_all_bytes() -> None:
    # (1e9/100e12 + 1e8/10e12) = 20 us against 33 MB / 1e12 = 33 us, cache and launch left out
    cost = Cost({"tensor.bf16": 1e9, "vector.fp32": 1e8, "sfu": 0}, {"weights": 33 * MB})
    found = bound(cost, ROUND, published=True)
    assert found.terms_us == pytest.approx({"compute": 20, "hbm": 33})
    assert found.limiter == "hbm"


@pytest.mark.parametrize(
    ("dtype", "name", "expected_us"),
    [
        ("bf16", "H20", 1e12 / 148e12 * 1e6),
        ("fp8_e4m3", "H20", 1e12 / 296e12 * 1e6),
        ("fp32", "H20", 1e12 / 44e12 * 1e6),
        ("fp16", "XPU-A", 1e12 / 232.65e12 * 1e6),
        ("fp32", "XPU-A", 1e12 / 29.1e12 * 1e6),
    ],
)
def test_published_work_by_dtype(dtype: str, name: str, expected_us: float) -> None:
    found = published_bound(Published({dtype: 1e12}, 1e6, 1e6), find(name))
    assert found.time_us == pytest.approx(expected_us, rel=1e-12)


def test_published_bytes_alone() -> None:
    # 3e6 + 1e6 bytes / 4e12 = 1 us
    found = published_bound(Published({}, 3e6, 1e6), find("H20"))
    assert_limit(found, 1, "hbm")


def test_published_work_without_a_peak_is_named() -> None:
    found = published_bound(Published({"int4": 1e12}, 4e6, 0), find("H20"))
    assert found.missing == ["int4"]


def test_a_working_set_as_large_as_the_cache_is_served_by_it() -> None:
    card = find("H100")
    size = card.value("l2.size")
    assert size is not None
    fits = bound(Cost(read_bytes={"activations": size}), card)
    beyond = bound(Cost(read_bytes={"activations": size + 1}), card)
    assert "hbm" not in {*fits.terms_us, *fits.missing}
    assert "hbm" in beyond.terms_us
