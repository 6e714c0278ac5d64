from __future__ import annotations

from typing import Any

import pytest

from solscope.attribution.link import link
from solscope.attribution.modules import layer_numbers, module_layers
from solscope.attribution.stacks import Stacks
from tests.making import event, profile


def tree(text: str) -> dict[str, list[str]]:
    """A tree from lines `parent: child child`."""
    lines = (line.split(": ") for line in text.strip().splitlines())
    return {parent.strip(): children.split() for parent, children in lines}


def numbered(modules: dict[str, list[str]]) -> dict[str, int]:
    """Number of each module that is a layer, whatever holds it."""
    return {name: number for (name, _), number in layer_numbers(modules).items()}


def layers_of(*names: str) -> str:
    """Lines that give each of these modules a norm, attention and MLP with parts of their own."""
    lines = []
    for name in names:
        lines += [f"{name}: Norm_{name} Attention_{name} MLP_{name}"]
        lines += [f"Attention_{name}: Linear_a{name}", f"MLP_{name}: Linear_m{name}"]
    return "\n".join(lines)


def test_layers_are_the_outermost_modules_that_repeat() -> None:
    found = numbered(
        tree(f"Model_0: Embedding_0 XLayer_0 XLayer_1 Norm_0\n{layers_of('XLayer_0', 'XLayer_1')}")
    )
    assert found == {"XLayer_0": 0, "XLayer_1": 1}


def test_heads_that_repeat_beside_the_model_are_no_layers() -> None:
    names = ("XLayer_0", "XLayer_1", "XLayer_2")
    found = numbered(
        tree(
            "Detector_0: Model_0 Norm_9 BoxHead_0 BoxHead_1\nBoxHead_0: Linear_0\n"
            f"BoxHead_1: Linear_1\nModel_0: {' '.join(names)} Norm_0\n{layers_of(*names)}"
        )
    )
    assert found == {"XLayer_0": 0, "XLayer_1": 1, "XLayer_2": 2}


def test_layers_of_two_classes_are_numbered_by_first_use() -> None:
    names = ("MambaDecoderLayer_0", "AttentionDecoderLayer_0", "MambaDecoderLayer_1")
    found = numbered(tree(f"Model_0: {' '.join(names)}\n{layers_of(*names)}"))
    assert found == {name: number for number, name in enumerate(names)}


def test_a_module_that_runs_a_shared_layer_before_its_own_is_two_layers() -> None:
    names = ("MambaLayer_0", "MambaLayer_1", "MambaLayer_2", "MambaLayer_3", "AttentionLayer_0")
    made = tree(
        "Model_0: MambaLayer_0 HybridLayer_0 MambaLayer_2 HybridLayer_1\n"
        "HybridLayer_0: AttentionLayer_0 MambaLayer_1\n"
        f"HybridLayer_1: AttentionLayer_0 MambaLayer_3\n{layers_of(*names)}"
    )
    assert list(layer_numbers(made)) == [
        ("MambaLayer_0", None),
        ("AttentionLayer_0", "HybridLayer_0"),
        ("MambaLayer_1", "HybridLayer_0"),
        ("MambaLayer_2", None),
        ("AttentionLayer_0", "HybridLayer_1"),
        ("MambaLayer_3", "HybridLayer_1"),
    ]


def test_a_block_of_experts_inside_a_layer_is_no_layer() -> None:
    text = (
        layers_of("XLayer_0", "XLayer_1") + "\nMLP_XLayer_1: SparseBlock_0\nSparseBlock_0: Linear_9"
    )
    assert set(numbered(tree(f"Model_0: XLayer_0 XLayer_1\n{text}"))) == {
        "XLayer_0",
        "XLayer_1",
    }


def test_two_models_in_one_process_are_numbered_apart() -> None:
    one, two = ("XLayer_0", "XLayer_1", "XLayer_2"), ("XLayer_3", "XLayer_4")
    found = numbered(
        tree(
            f"Model_0: {' '.join(one)}\nModel_1: {' '.join(two)}\n"
            f"{layers_of(*one)}\n{layers_of(*two)}"
        )
    )
    assert [found[name] for name in (*one, *two)] == [0, 1, 2, 0, 1]


def test_layers_of_two_towers_are_numbered_on() -> None:
    one, two = ("XBlock_0", "XBlock_1", "XBlock_2"), ("XBlock_3", "XBlock_4", "XBlock_5")
    found = numbered(
        tree(
            f"Model_0: Stack_0 Stack_1\nStack_0: {' '.join(one)}\nStack_1: {' '.join(two)}\n"
            f"{layers_of(*one)}\n{layers_of(*two)}"
        )
    )
    assert [found[name] for name in (*one, *two)] == [0, 1, 2, 3, 4, 5]


def test_two_short_stacks_of_one_model_hold_layers() -> None:
    """HRM-Text: two stacks of two layers each, with nothing else in them but a norm."""
    one, two = ("XLayer_0", "XLayer_1"), ("XLayer_2", "XLayer_3")
    found = numbered(
        tree(
            f"Model_0: Stack_0 Stack_1\nStack_0: {' '.join(one)} RMSNorm_0\n"
            f"Stack_1: {' '.join(two)} RMSNorm_1\n{layers_of(*one)}\n{layers_of(*two)}"
        )
    )
    assert found == {name: number for number, name in enumerate((*one, *two))}


def test_two_layers_with_two_attentions_each_are_layers() -> None:
    """As those of a decoder that attends to an encoder, whose feed-forward part has no module."""
    text = "Model_0: XLayer_0 XLayer_1\n"
    for n in (0, 1):
        text += f"XLayer_{n}: Attention_{n}a Norm_{n} Attention_{n}b Linear_{n}u Linear_{n}d\n"
        text += "".join(f"Attention_{n}{x}: QNorm_{n}{x} Linear_{n}{x}\n" for x in "ab")
    assert numbered(tree(text)) == {"XLayer_0": 0, "XLayer_1": 1}


def test_two_layers_with_many_experts_each_are_layers() -> None:
    experts = {n: [f"Expert_{n}{i}" for i in range(8)] for n in (0, 1)}
    text = "Model_0: XLayer_0 XLayer_1\n"
    for n in (0, 1):
        text += f"XLayer_{n}: Norm_{n} MoE_{n}\nMoE_{n}: {' '.join(experts[n])}\n"
        text += "".join(f"{e}: Linear_{e}\n" for e in experts[n])
    assert numbered(tree(text)) == {"XLayer_0": 0, "XLayer_1": 1}


def test_parts_without_parts_of_their_own_are_no_layers() -> None:
    assert numbered(tree("Model_0: Linear_0 Linear_1 Linear_2")) == {}


def stack(name: str, start: int) -> list[dict[str, Any]]:
    """A layer module with attention and a linear layer in it, around one launch."""
    call = {"correlation": start + 1}
    return [
        event("python", f"nn.Module: {name}", start, 90),
        event("python", f"nn.Module: Attention{name}", start + 5, 50),
        event("python", f"nn.Module: Linear{name}", start + 8, 20),
        event("runtime", "cudaLaunchKernel", start + 10, 5, **call),
        event("kernel", "gemm", 1000 + start, 30, **call),
    ]


def test_the_layer_around_a_launch_is_that_of_its_stack() -> None:
    model = event("python", "nn.Module: Model_0", 0, 400)
    alone = [
        event("runtime", "cudaLaunchKernel", 310, 5, correlation=311),
        event("kernel", "gemm", 1310, 30, correlation=311),
    ]
    events = profile(model, *stack("NeoXLayer_0", 100), *stack("NeoXLayer_1", 200), *alone).events
    assert module_layers(Stacks(events, link(events))).to_list() == [0, 1, None]


@pytest.mark.parametrize(
    ("kind", "name", "layer"),
    [
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
    assert module_layers(Stacks(events, link(events))).to_list() == [layer]


def test_a_module_that_runs_under_one_of_its_name() -> None:
    """As the graph modules of a compiled model do, directly or further up."""
    names = ("XLayer_0", "XLayer_1")
    text = f"Model_0: Graph_0\nGraph_0: Graph_0 {' '.join(names)}\n{layers_of(*names)}"
    found = numbered(tree(f"{text}\nLinear_mXLayer_0: Graph_0 Other_0"))
    assert found == {"XLayer_0": 0, "XLayer_1": 1}
