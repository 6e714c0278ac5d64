from __future__ import annotations

from solscope.attribution.collectives import annotated_inputs
from solscope.views.operators import named_hardware, operator_table
from tests.making import attributed, event, profile

KERNEL = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
INPUTS = {"input_dims": "[[1000]]", "input_types": '["float"]'}
EVENTS = (
    event("cpu_op", "record_param_comms", 100, 50, external_id=1),
    event("annotation", "nccl:all_reduce", 110, 30, **INPUTS),
    event("runtime", "cudaLaunchKernel", 120, 5, correlation=1, external_id=1),
    event("kernel", KERNEL, 1000, 20_000, correlation=1),
)


def test_the_annotation_inside_has_the_inputs() -> None:
    assert annotated_inputs(profile(*EVENTS).events) == {0: 1}


def test_an_annotation_after_the_record_is_another_s() -> None:
    late = event("annotation", "nccl:all_reduce", 151, 30, **INPUTS)
    assert annotated_inputs(profile(EVENTS[0], late).events) == {}


def test_a_record_with_inputs_keeps_them() -> None:
    own = event("cpu_op", "record_param_comms", 100, 50, input_dims="[[8]]")
    assert annotated_inputs(profile(own, EVENTS[1]).events) == {}


def test_a_kernel_says_itself_what_it_sends() -> None:
    told = {
        "input_dims": "[[25136]]",
        "input_types": '["BFloat16"]',
        "concrete_inputs": '["","","","","","[]","[]","","","8"]',
    }
    kernel = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    made = attributed(event("kernel", kernel, 1000, 20_000, **told))
    (row,) = operator_table(made, named_hardware("B200")).operators
    assert (row.operator, row.axes) == ("all_gather", {"bytes": 50272, "ranks": 8})


def test_a_collective_has_a_bound() -> None:
    # 4000 bytes each way at 450 GB/s per direction
    (row,) = operator_table(attributed(*EVENTS), named_hardware("H200")).operators
    assert (row.op, row.operator, row.axes) == ("nccl:all_reduce", "all_reduce", {"bytes": 4000})
    assert (row.limiter, row.time_us) == ("launch", 20.0)


def test_a_list_of_tensors_takes_its_type_from_the_annotation() -> None:
    """As torch records RCCL, whose kernel does not say which collective it is."""
    listed = {"input_dims": "[[[1000]],[]]", "input_types": '["TensorList",""]'}
    record = event("cpu_op", "record_param_comms", 100, 50, external_id=1, **listed)
    kernel = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
    events = (record, *EVENTS[1:3], event("kernel", kernel, 1000, 20_000, correlation=1))
    assert annotated_inputs(profile(*events).events) == {0: 1}
    (row,) = operator_table(attributed(*events), named_hardware("MI300X")).operators
    assert (row.op, row.operator, row.axes) == ("nccl:all_reduce", "all_reduce", {"bytes": 4000})
