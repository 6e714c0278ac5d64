from __future__ import annotations

import pytest

from solscope.attribution.link import link
from solscope.attribution.modules import module_layers
from tests.making import event, profile


@pytest.mark.parametrize(
    ("kind", "name", "layer"),
    [
        ("python", "nn.Module: LlamaDecoderLayer_7", 7),
        ("python", "nn.Module: TransformerBlock_12", 12),
        ("python", "nn.Module: LlamaRMSNorm_7", None),
        ("python", "layers/llama.py(12): forward", None),
        ("annotation", "model.layers.3", 3),
        ("annotation", "Layer 5: forward", 5),
        ("annotation", "transformer.h.11.attn", 11),
        ("annotation", "decode_step", None),
    ],
)
def test_names_that_state_a_layer(kind: str, name: str, layer: int | None) -> None:
    events = profile(
        event(kind, name, 0, 100),
        event("runtime", "cudaLaunchKernel", 10, 5, correlation=1),
        event("kernel", "gemm", 200, 30, correlation=1),
    ).events
    assert module_layers(events, link(events)).to_list() == [layer]


def test_the_innermost_layer_counts() -> None:
    events = profile(
        event("python", "nn.Module: DecoderLayer_1", 0, 100),
        event("python", "nn.Module: DecoderLayer_2", 5, 50),
        event("runtime", "cudaLaunchKernel", 10, 5, correlation=1),
        event("kernel", "gemm", 200, 30, correlation=1),
    ).events
    assert module_layers(events, link(events)).to_list() == [2]
