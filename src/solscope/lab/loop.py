"""The serving loop of the lab: continuous decoding of one batch, a prefill now and then.

Each step is annotated as a server would: `engine_step` > `schedule`, `prefill`, `decode`, `sample`,
`detokenize`. It uploads offloaded blocks from pinned host memory, downloads logits, writes a log
line, and has threads beside it that hash what was sent. All that is there in the normal run, so
that a fault can make it worse rather than add something new. One process builds the model once and
records many times; `configure` changes the work in between.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from solscope.lab.model import TINY, Decoder, Shape, Variant

Mode = Literal["eager", "graph"]
Point = Literal["step", "schedule", "layer", "decode", "sample", "detokenize"]
Hook = Callable[[int], None]
"""Called at a point of the step; takes the layer, or 0."""
CHUNK_BYTES = 2 << 20
"""Bytes of one upload."""
HELPER_BUSY_S, HELPER_IDLE_S = 0.004, 0.006


@dataclass(frozen=True)
class Settings:
    """The work of the loop."""

    mode: Mode = "eager"
    batch: int = 32
    context: int = 1024
    prefill_every: int = 8
    prefill_tokens: int = 256
    upload_chunks: int = 8
    """Chunks of `CHUNK_BYTES` that each step uploads."""
    staged_chunks: int = 2
    """How many of them the host first copies into pinned memory itself."""
    pageable_chunks: int = 0
    """How many are uploaded straight from memory that is not pinned."""
    eager_share: float = 0.0
    """Share of the steps that run eagerly although there is a graph."""
    variant: Variant = field(default_factory=Variant)

    @property
    def capacity(self) -> int:
        return self.context + max(self.context // 2, self.prefill_tokens)


TINY_SETTINGS = Settings(
    batch=2, context=16, prefill_every=2, prefill_tokens=8, upload_chunks=2, staged_chunks=1
)
MAX_POSITIONS = 1 << 15
"""Longest context, in tokens, for which rotations are computed."""


class Loop:
    """The loop; a step is one call of `step`."""

    def __init__(self, device: str, log: Path, tiny: bool = False, helpers: int = 3) -> None:
        import torch

        self.device = device
        self.on_gpu = device.startswith("cuda")
        self.defaults = TINY_SETTINGS if tiny else Settings()
        self.model = Decoder(TINY if tiny else Shape(), device, MAX_POSITIONS)
        self.hooks: dict[Point, Hook] = {}
        self.lock = threading.Lock()
        """Held by whoever changes the state of requests."""
        self.index = 0
        self.helper_ids: list[int] = []
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._closing = threading.Event()
        self._settings: Settings | None = None
        self._graph: Any = None
        self._torch = torch
        self._helpers = [
            threading.Thread(target=self._help, args=(number,), daemon=True)
            for number in range(helpers)
        ]
        for thread in self._helpers:
            thread.start()

    @property
    def settings(self) -> Settings:
        assert self._settings is not None, "configure() first"
        return self._settings

    def close(self) -> None:
        self._closing.set()
        for thread in self._helpers:
            thread.join(timeout=5)
        os.close(self._log)

    def configure(self, settings: Settings) -> None:
        """Make the loop do this work; buffers and graph are rebuilt only where they must be."""
        torch = self._torch
        before = self._settings
        if settings == before:
            return
        self._settings = settings
        rebuilt = before is None or _storage(before) != _storage(settings)
        stale = rebuilt or before is None or before.variant != settings.variant
        with torch.inference_mode():
            self.model.widen(settings.variant.float32_layers)
            if stale:
                self._graph = None
            if rebuilt:
                self._allocate(settings)
            if settings.mode == "graph" and self._graph is None:
                self._capture()

    def step(self) -> None:
        """One iteration of the engine."""
        from torch.profiler import record_function

        with self._torch.inference_mode(), record_function("engine_step"):
            self._at("step")
            with self.lock:
                pass
            with record_function("schedule"):
                self._at("schedule")
                self._schedule()
            if self.index % self.settings.prefill_every == 0:
                with record_function("prefill"):
                    self._prefill()
            with record_function("decode"):
                self._at("decode")
                self._decode()
            with record_function("sample"):
                self._at("sample")
                sent = self._sample()
            with record_function("detokenize"):
                self._at("detokenize")
                self._detokenize(sent)
        self.index += 1

    def finish(self) -> None:
        """Wait for the GPU."""
        if self.on_gpu:
            self._torch.cuda.synchronize()

    def _at(self, point: Point, layer: int = 0) -> None:
        hook = self.hooks.get(point)
        if hook is not None:
            hook(layer)

    def _allocate(self, settings: Settings) -> None:
        torch, shape = self._torch, self.model.shape
        self._caches: list[tuple[Any, Any]] = []
        size = (settings.batch, shape.kv_heads, settings.capacity, shape.head)
        for _ in range(shape.layers):
            pair = (
                torch.zeros(size, device=self.device, dtype=self.model.dtype),
                torch.zeros(size, device=self.device, dtype=self.model.dtype),
            )
            self._caches.append(pair)
        self._tokens = torch.zeros(settings.batch, device=self.device, dtype=torch.long)
        self._positions = torch.zeros(settings.batch, device=self.device, dtype=torch.long)
        self._prompt = torch.zeros(settings.prefill_tokens, device=self.device, dtype=torch.long)
        self._logits: Any = None
        pinned = self.on_gpu
        self._host_positions = torch.zeros(settings.batch, dtype=torch.long, pin_memory=pinned)
        self._host_tokens = torch.zeros(settings.batch, dtype=torch.long, pin_memory=pinned)
        self._host_logits = torch.zeros(
            settings.batch, shape.vocab, dtype=self.model.dtype, pin_memory=pinned
        )
        self._plain_logits = torch.zeros(settings.batch, shape.vocab, dtype=self.model.dtype)
        chunks, count = (settings.upload_chunks, CHUNK_BYTES), settings.upload_chunks
        self._pool = torch.ones(chunks, dtype=torch.uint8)
        self._pinned = torch.ones(chunks, dtype=torch.uint8, pin_memory=pinned)
        self._uploaded = torch.zeros(chunks, dtype=torch.uint8, device=self.device)
        assert settings.staged_chunks <= count

    def _capture(self) -> None:
        torch = self._torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._forward()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._logits = self._forward()
        self._graph = graph
        self._graph_logits = self._logits

    def _forward(self, on_layer: Hook | None = None) -> Any:
        return self.model.decode(
            self._tokens, self._positions, self._caches, self.settings.variant, on_layer
        )

    def _schedule(self) -> None:
        """Choose what runs: bookkeeping in Python, positions and offloaded blocks to the GPU."""
        settings = self.settings
        position = settings.context + self.index % (settings.capacity - settings.context)
        requests = [
            {"id": row, "position": position, "blocks": list(range(position // 64))}
            for row in range(settings.batch)
        ]
        requests.sort(key=lambda request: (-len(str(request["blocks"])), str(request["id"])))
        self._host_positions.fill_(position)
        self._positions.copy_(self._host_positions, non_blocking=True)
        for chunk in range(settings.upload_chunks):
            if chunk < settings.pageable_chunks:
                self._uploaded[chunk].copy_(self._pool[chunk])
                continue
            if chunk >= settings.upload_chunks - settings.staged_chunks:
                self._pinned[chunk].copy_(self._pool[chunk])
            self._uploaded[chunk].copy_(self._pinned[chunk], non_blocking=True)

    def _prefill(self) -> None:
        settings = self.settings
        self._prompt.random_(0, self.model.shape.vocab)
        row = (self.index // settings.prefill_every) % settings.batch
        on_layer = self._layer_hook()
        self.model.prefill(self._prompt, row, self._caches, settings.variant, on_layer)

    def _decode(self) -> None:
        share = self.settings.eager_share
        missed = int((self.index + 1) * share) > int(self.index * share)
        if self.settings.mode == "graph" and not missed:
            self._graph.replay()
            self._logits = self._graph_logits
        else:
            self._logits = self._forward(self._layer_hook())

    def _layer_hook(self) -> Hook | None:
        return self.hooks.get("layer")

    def _sample(self) -> list[int]:
        torch = self._torch
        pinned = not self.settings.pageable_chunks
        probabilities = torch.softmax(self._logits.float(), dim=-1)
        chosen = torch.multinomial(probabilities, 1).squeeze(-1)
        self._tokens.copy_(chosen)
        if pinned:
            self._host_logits.copy_(self._logits, non_blocking=True)
        else:
            self._plain_logits.copy_(self._logits)
        self._host_tokens.copy_(chosen, non_blocking=True)
        if self.on_gpu:
            torch.cuda.current_stream().synchronize()
        return [int(token) for token in self._host_tokens.tolist()]

    def _detokenize(self, sent: list[int]) -> None:
        text = "".join(chr(97 + token % 26) for token in sent)
        os.write(self._log, f"{self.index} {text}\n".encode())

    def _help(self, number: int) -> None:
        """A thread that hashes outgoing data, four tenths of the time and without the GIL."""
        self.helper_ids.append(threading.get_native_id())
        data = bytes([number % 256]) * (256 << 10)
        while not self._closing.is_set():
            until = time.monotonic() + HELPER_BUSY_S
            while time.monotonic() < until:
                hashlib.sha256(data).digest()
            self._closing.wait(HELPER_IDLE_S)


def _storage(settings: Settings) -> Settings:
    """The settings that decide about buffers, the rest set to one value."""
    return replace(
        settings,
        mode="eager",
        prefill_every=1,
        staged_chunks=0,
        pageable_chunks=0,
        eager_share=0.0,
        variant=Variant(),
    )
