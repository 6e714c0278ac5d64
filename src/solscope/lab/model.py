"""A llama-like decoder with random weights, in plain torch: what the lab's loop serves.

It has no notion of requests, sampling or faults. `Variant` says which of its layers run a slower
implementation, as after a bad upgrade.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

SEED = 7
"""Of the weights: every recording runs the same model."""
OnLayer = Callable[[int], None]


@dataclass(frozen=True)
class Shape:
    """Sizes of the model."""

    layers: int = 12
    hidden: int = 4096
    ffn: int = 11008
    heads: int = 32
    kv_heads: int = 8
    vocab: int = 32000

    @property
    def head(self) -> int:
        return self.hidden // self.heads


TINY = Shape(layers=2, hidden=64, ffn=128, heads=4, kv_heads=2, vocab=256)
"""For tests on a CPU."""


@dataclass(frozen=True)
class Variant:
    """How many layers, from the first, run a slower implementation."""

    math_attention_layers: int = 0
    """Attention written out as matrix products and a softmax, instead of one fused kernel."""
    float32_layers: int = 0
    """Matrix products in 32-bit floats, without TF32."""


class Decoder:
    """Weights, and the two passes over them."""

    def __init__(self, shape: Shape, device: str, max_positions: int) -> None:
        import torch

        self.shape = shape
        self.device = device
        self.dtype = torch.bfloat16
        generator = torch.Generator(device=device).manual_seed(SEED)

        def weight(*size: int) -> Any:
            values = torch.empty(size, device=device, dtype=self.dtype)
            return values.normal_(0.0, 0.02, generator=generator)

        kv = shape.kv_heads * shape.head
        self.embedding = weight(shape.vocab, shape.hidden)
        self.output = weight(shape.hidden, shape.vocab)
        self.norm = torch.ones(shape.hidden, device=device, dtype=self.dtype)
        self.layers = [
            {
                "qkv": weight(shape.hidden, shape.hidden + 2 * kv),
                "o": weight(shape.hidden, shape.hidden),
                "up": weight(shape.hidden, 2 * shape.ffn),
                "down": weight(shape.ffn, shape.hidden),
            }
            for _ in range(shape.layers)
        ]
        self._wide: dict[tuple[int, str], Any] = {}
        steps = torch.arange(0, shape.head, 2, device=device).float() / shape.head
        angles = torch.arange(max_positions, device=device).float()[:, None] / (10000.0**steps)
        self._cos, self._sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def widen(self, layers: int) -> None:
        """Make the 32-bit copies that `Variant.float32_layers` needs; 0 drops them."""
        if not layers:
            self._wide.clear()
        for index in range(layers):
            for name, values in self.layers[index].items():
                if (index, name) not in self._wide:
                    self._wide[index, name] = values.float()

    def decode(
        self,
        tokens: Any,
        positions: Any,
        caches: list[tuple[Any, Any]],
        variant: Variant,
        on_layer: OnLayer | None = None,
    ) -> Any:
        """Logits of the next token of every request; keys and values go to `caches`."""
        import torch

        batch = tokens.shape[0]
        rows = torch.arange(batch, device=tokens.device)
        capacity = caches[0][0].shape[2]
        slots = torch.arange(capacity, device=tokens.device)
        mask = (slots[None, :] <= positions[:, None])[:, None, None, :]
        x = self.embedding[tokens]
        for index, (keys, values) in enumerate(caches):
            if on_layer is not None:
                on_layer(index)
            q, k, v = self._project(index, x, positions, variant)
            keys[rows, :, positions] = k
            values[rows, :, positions] = v
            mixed = self._attend(index, variant, q[:, :, None], keys, values, mask=mask)
            x = self._finish(index, x, mixed[:, :, 0], variant)
        return self._normed(x) @ self.output

    def prefill(
        self,
        tokens: Any,
        row: int,
        caches: list[tuple[Any, Any]],
        variant: Variant,
        on_layer: OnLayer | None = None,
    ) -> Any:
        """Logits after the prompt `tokens`; its keys and values go to row `row` of `caches`."""
        import torch

        count = tokens.shape[0]
        positions = torch.arange(count, device=tokens.device)
        x = self.embedding[tokens]
        for index, (keys, values) in enumerate(caches):
            if on_layer is not None:
                on_layer(index)
            q, k, v = self._project(index, x, positions, variant)
            q, k, v = (tensor.transpose(0, 1)[None] for tensor in (q, k, v))
            keys[row, :, :count] = k[0]
            values[row, :, :count] = v[0]
            mixed = self._attend(index, variant, q, k, v, causal=True)
            x = self._finish(index, x, mixed[0].transpose(0, 1), variant)
        return self._normed(x[-1:]) @ self.output

    def _project(self, index: int, x: Any, positions: Any, variant: Variant) -> tuple[Any, ...]:
        shape = self.shape
        kv = shape.kv_heads * shape.head
        qkv = self._product(index, "qkv", self._normed(x), variant)
        q, k, v = qkv.split([shape.hidden, kv, kv], dim=-1)
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        q = _rotate(q.view(-1, shape.heads, shape.head), cos, sin)
        k = _rotate(k.view(-1, shape.kv_heads, shape.head), cos, sin)
        return q, k, v.reshape(-1, shape.kv_heads, shape.head)

    def _attend(
        self,
        index: int,
        variant: Variant,
        q: Any,
        k: Any,
        v: Any,
        mask: Any = None,
        causal: bool = False,
    ) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        written_out = index < variant.math_attention_layers
        with sdpa_kernel(SDPBackend.MATH) if written_out else nullcontext():
            return scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=True
            )

    def _finish(self, index: int, x: Any, mixed: Any, variant: Variant) -> Any:
        from torch.nn.functional import silu

        mixed = mixed.reshape(-1, self.shape.hidden)
        x = x + self._product(index, "o", mixed, variant)
        gate, up = self._product(index, "up", self._normed(x), variant).chunk(2, dim=-1)
        return x + self._product(index, "down", silu(gate) * up, variant)

    def _product(self, index: int, name: str, x: Any, variant: Variant) -> Any:
        if index < variant.float32_layers:
            return (x.float() @ self._wide[index, name]).to(self.dtype)
        return x @ self.layers[index][name]

    def _normed(self, x: Any) -> Any:
        from torch.nn.functional import rms_norm

        return rms_norm(x, (self.shape.hidden,), self.norm, 1e-6)


def _rotate(x: Any, cos: Any, sin: Any) -> Any:
    import torch

    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
