from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.making import attributed, event
from tests.models import LAYER, MODEL, kernels, launched


def column(name: str, *events: dict[str, Any]) -> list[Any]:
    return attributed(*events).activities[name].to_list()


def test_every_kernel_of_a_model_has_a_place() -> None:
    assert column("place", *kernels(MODEL)) == ["prologue"] + ["layer"] * 20 + ["epilogue"] * 3
    assert column("layer", *kernels(MODEL)) == [None, *[0] * 10, *[1] * 10, None, None, None]


def test_roles_and_groups_of_a_model() -> None:
    made = attributed(*kernels(MODEL)).activities
    assert made["role"].to_list()[:4] == ["embedding", "input_norm", "qkv", "rope"]
    assert made["role"].to_list()[-3:] == ["final_norm", "lm_head", "sampler"]
    assert made["group"].to_list()[9:12] == ["mlp", "mlp", "attention"]


def test_the_order_on_the_gpu_counts_not_that_of_the_file() -> None:
    made = attributed(*reversed(kernels(MODEL))).activities
    assert made.sort("start_ns")["layer"].to_list() == column("layer", *kernels(MODEL))


def test_kernels_of_a_written_out_norm_share_its_role() -> None:
    elementwise = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>"
    norm = [
        elementwise.format("pow_tensor_scalar_kernel_impl"),
        "void at::native::reduce_kernel<512, 1, at::native::MeanOps>",
        elementwise.format("CUDAFunctorOnSelf_add"),
        elementwise.format("rsqrt_kernel_cuda"),
        elementwise.format("MulFunctor"),
    ]
    model = kernels(MODEL)
    # The norm at the start of the first layer, kernel 1, is replaced by five shorter ones.
    chain = [event("kernel", name, 10 + 2 * i, 2) for i, name in enumerate(norm)]
    made = attributed(*model[:1], *chain, *model[2:]).activities
    assert made["role"].to_list()[1:6] == ["input_norm"] * 5
    assert made["layer"].to_list()[1:6] == [0] * 5


def test_a_layer_that_differs_from_the_others_of_its_kind_is_less_sure() -> None:
    odd = LAYER.replace("R", "NR")
    made = attributed(*kernels(f"E{LAYER * 2}{odd}NGT")).activities
    by_layer = made.group_by("layer").agg(pl.col("layer_confidence").max()).sort("layer")
    plain, again, last = by_layer["layer_confidence"].to_list()[1:]
    assert plain == again
    assert last < plain


def test_confidence_is_the_lower_one_of_layer_and_role() -> None:
    made = attributed(*kernels(MODEL)).activities
    lower = made.select(pl.min_horizontal("layer_confidence", "role_confidence")).to_series()
    assert made["confidence"].to_list() == lower.to_list()
    assert made["kind_confidence"].null_count() == 4


def test_a_role_that_was_wrong_more_often_than_right_is_not_claimed() -> None:
    """Layers without a norm or a cache, in which products look like a chain of latents."""
    odd = "NGNGAG"
    made = attributed(*kernels(f"E{odd * 3}NGT")).activities
    unsure = made.filter(pl.col("role_confidence") < 0.5)
    assert unsure.height > 0
    assert unsure["role"].unique().to_list() == ["other"]
    assert not made["role"].cast(pl.String).is_in(["q_a_kv_a", "q_b"]).any()


def test_a_model_without_layers_has_no_places() -> None:
    assert column("place", *kernels("GNGSGNGSG")) == [None] * 9
    assert column("confidence", *kernels("GNGSGNGSG")) == [None] * 9


def test_a_profile_of_training_is_left_alone() -> None:
    backward = event("kernel", "flash_bwd_kernel", 10_000, 10)
    assert set(column("place", *kernels(MODEL), backward)) == {None}


def test_two_passes_of_a_mixed_step_are_numbered_apart() -> None:
    made = attributed(
        event("annotation", "engine_step", 0, 1000),
        event("annotation", "prefill", 100, 200),
        event("annotation", "decode", 400, 200),
        *launched(MODEL, 110, 2000, 1),
        *launched(MODEL, 410, 3000, 101),
    ).activities
    found = made.group_by("phase").agg(pl.col("layer").max(), pl.len()).sort("phase")
    assert found.rows() == [("prefill", 1, 24), ("decode", 1, 24)]


def test_a_cut_head_does_not_shift_the_layers_after_it() -> None:
    made = attributed(
        *kernels(LAYER * 2, 0),
        event("annotation", "ProfilerStep#6", 1000, 500),
        *launched(MODEL, 1010, 2000, 1),
    ).activities
    whole = made.filter(pl.col("step") == 1)
    assert whole["layer"].to_list() == [None, *[0] * 10, *[1] * 10, None, None, None]


def test_devices_are_walked_apart() -> None:
    second = kernels(MODEL, 5, device=1)
    made = attributed(*kernels(MODEL), *second).activities
    for device in (0, 1):
        assert made.filter(pl.col("device") == device)["layer"].drop_nulls().max() == 1


def test_activities_without_a_start_have_no_place() -> None:
    lost = {**event("kernel", "flash_fwd_kernel", 0, 10), "start_ns": None}
    assert column("place", *kernels(MODEL), lost)[-1] is None


@pytest.mark.parametrize(
    ("head", "sizes", "expected"),
    [
        (
            "NGNGNG",
            [(2048, 2048), (2048, 512), (2048, 512)],
            ["qkv", "qk_norm", "qkv", "qk_norm", "qkv"],
        ),
        (
            "NGNGGNG",
            [(2048, 384), (384, 4096), (2048, 576), (512, 4096)],
            ["q_a_kv_a", "qk_norm", "q_b", "q_a_kv_a", "qk_norm", "kv_b"],
        ),
    ],
    ids=["norms of queries and keys", "latent attention"],
)
def test_recorded_shapes_tell_qk_norm_from_mla(
    head: str, sizes: list[tuple[int, int]], expected: list[str]
) -> None:
    layer = f"{head}RKAGNGSG"
    text = f"E{layer}{layer}NGT"
    events: list[dict[str, Any]] = []
    products = 0
    for i, kernel in enumerate(kernels(text, 10_000)):
        dims = None
        if text[i] == "G":
            number = products % layer.count("G")
            inner, outer = sizes[number] if number < len(sizes) else (2048, 2048)
            dims = f"[[8, {inner}], [{inner}, {outer}]]"
            products += 1
        same: dict[str, Any] = {"external_id": 500 + i}
        events += [
            event("cpu_op", "aten::mm", 100 * i, 50, input_dims=dims, **same),
            event("runtime", "cudaLaunchKernel", 100 * i + 10, 5, correlation=i + 1, **same),
            {**kernel, "correlation": i + 1},
        ]
    roles = attributed(*events).activities["role"].to_list()
    assert roles[1 : len(head) + 1] == ["input_norm", *expected]
