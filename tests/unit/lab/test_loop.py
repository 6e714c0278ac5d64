from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from solscope.lab.loop import Loop, Point
from solscope.lab.model import Variant

if not sys.platform.startswith("linux"):
    pytest.skip("the lab is for Linux", allow_module_level=True)
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    torch.set_num_threads(1)
    loop = Loop("cpu", tmp_path_factory.mktemp("lab") / "loop.log", tiny=True, helpers=1)
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def _normal(loop: Loop) -> None:
    loop.configure(loop.defaults)
    loop.index = 0


def test_a_step_is_annotated_like_a_server(loop: Loop) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        loop.step()
        loop.step()
    sections = ("engine_step", "schedule", "prefill", "decode", "sample", "detokenize")
    ranges = [event for event in profiler.events() if event.name in sections]
    ranges.sort(key=lambda event: event.time_range.start)
    every_step = ["engine_step", "schedule", "decode", "sample", "detokenize"]
    with_prefill = [*every_step[:2], "prefill", *every_step[2:]]
    assert [event.name for event in ranges] == with_prefill + every_step


def test_hooks_are_called_in_the_order_of_the_step(loop: Loop) -> None:
    calls: list[str] = []
    points: tuple[Point, ...] = get_args(Point)
    for point in points:
        loop.hooks[point] = lambda layer, point=point: calls.append(f"{point}{layer}")  # type: ignore[misc]
    loop.index = 1
    loop.step()
    loop.hooks.clear()
    layers = ["layer0", "layer1"]
    assert calls == ["step0", "schedule0", "decode0", *layers, "sample0", "detokenize0"]


def logits(loop: Loop, variant: Variant) -> object:
    loop.configure(replace(loop.defaults, variant=variant))
    torch.manual_seed(3)
    tokens = torch.randint(0, 256, (8,))
    with torch.inference_mode():
        return loop.model.prefill(tokens, 0, loop._caches, variant).float()


@pytest.mark.parametrize("variant", [Variant(math_attention_layers=2), Variant(float32_layers=2)])
def test_a_slower_implementation_computes_the_same(loop: Loop, variant: Variant) -> None:
    torch.testing.assert_close(logits(loop, variant), logits(loop, Variant()), atol=0.02, rtol=0.05)


def test_decoding_continues_what_prefill_began(loop: Loop) -> None:
    """The logits of a decode step are those of a prefill that is one token longer."""
    tokens = torch.randint(0, 256, (9,), generator=torch.Generator().manual_seed(1))
    loop.configure(replace(loop.defaults, prefill_tokens=9, context=12))
    with torch.inference_mode():
        whole = loop.model.prefill(tokens, 0, loop._caches, Variant())
        for row in range(2):
            loop.model.prefill(tokens[:8], row, loop._caches, Variant())
        last = tokens[8:].repeat(2)
        stepped = loop.model.decode(last, torch.tensor([8, 8]), loop._caches, Variant())
    torch.testing.assert_close(stepped[0].float(), whole[0].float(), atol=0.02, rtol=0.05)
    torch.testing.assert_close(stepped[0], stepped[1])


def test_more_work_needs_other_buffers(loop: Loop) -> None:
    loop.configure(replace(loop.defaults, batch=5, context=48, pageable_chunks=1))
    loop.step()
    assert loop._tokens.shape == (5,)
    assert loop._caches[0][0].shape[2] == loop.settings.capacity == 72


def test_helpers_work_beside_the_loop(loop: Loop) -> None:
    [helper] = loop.helper_ids
    assert Path(f"/proc/self/task/{helper}").exists()
