"""Small diffusion transformers with random weights, written out as their papers describe them.

* `DiT`: blocks whose norms are scaled and shifted by the time step (adaptive LayerNorm).
* `SD3`: blocks in which text and image have weights of their own and share one attention.
* `Flux`: such double blocks first, then single blocks with attention and MLP side by side.
* `PixArt`: one modulation for all blocks, to which each adds a table; text by cross-attention.
* `Lumina`: RMSNorm before and behind attention and a gated MLP, rotary positions, scales and gates.

They stand in for the models of `diffusers`, which need not be installed where recordings are made.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everywhere

HIDDEN, HEADS, TEXT, IMAGE = 1024, 16, 77, 256


def _modulate(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * (1 + scale[:, None]) + shift[:, None]


def _heads(x: torch.Tensor) -> torch.Tensor:
    batch, tokens, width = x.shape
    return x.view(batch, tokens, HEADS, width // HEADS).transpose(1, 2)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    mixed = F.scaled_dot_product_attention(_heads(q), _heads(k), _heads(v))
    return mixed.transpose(1, 2).flatten(2)


class Modulation(nn.Module):
    """Shifts, scales and gates from the embedding of the time step."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.linear = nn.Linear(HIDDEN, parts * HIDDEN)

    def forward(self, time: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.linear(F.silu(time)).chunk(self.parts, dim=-1)  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """Two projections around a GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))  # type: ignore[no-any-return]


class SelfAttention(nn.Module):
    """Attention over the image."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(_attend(*self.qkv(x).chunk(3, dim=-1)))  # type: ignore[no-any-return]


class DiTBlock(nn.Module):
    """Attention and MLP, each behind a norm that the time step modulates."""

    def __init__(self) -> None:
        super().__init__()
        self.modulation = Modulation(6)
        self.norm1 = nn.LayerNorm(HIDDEN, elementwise_affine=False)
        self.attention = SelfAttention()
        self.norm2 = nn.LayerNorm(HIDDEN, elementwise_affine=False)
        self.feed_forward = FeedForward()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(time)
        x = x + gate[:, None] * self.attention(_modulate(self.norm1(x), shift, scale))
        return x + gate2[:, None] * self.feed_forward(_modulate(self.norm2(x), shift2, scale2))


class JointAttention(nn.Module):
    """One attention over text and image, each with projections of its own."""

    def __init__(self, rotate: bool) -> None:
        super().__init__()
        self.rotate = rotate
        self.text_qkv, self.qkv = (nn.Linear(HIDDEN, 3 * HIDDEN) for _ in range(2))
        self.text_out, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(2))
        self.norm_q, self.norm_k = (nn.RMSNorm(HIDDEN) for _ in range(2))

    def forward(self, text: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = torch.cat([self.text_qkv(text), self.qkv(x)], dim=1)
        q, k, v = both.chunk(3, dim=-1)
        q, k = self.norm_q(q), self.norm_k(k)
        mixed = _attend(_rotated(q), _rotated(k), v) if self.rotate else _attend(q, k, v)
        return self.text_out(mixed[:, : text.shape[1]]), self.out(mixed[:, text.shape[1] :])


def _rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary embedding over halves."""
    positions = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)[None, :, None]
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return x * torch.cos(positions) + turned * torch.sin(positions)


class DoubleBlock(nn.Module):
    """Text and image side by side with one attention."""

    def __init__(self, rotate: bool) -> None:
        super().__init__()
        self.text_modulation, self.modulation = Modulation(6), Modulation(6)
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN, elementwise_affine=False) for _ in range(4))
        self.attention = JointAttention(rotate)
        self.text_feed_forward, self.feed_forward = FeedForward(), FeedForward()

    def forward(
        self, text: torch.Tensor, x: torch.Tensor, time: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        m, t = self.modulation(time), self.text_modulation(time)
        mixed_text, mixed = self.attention(
            _modulate(self.norms[0](text), t[0], t[1]), _modulate(self.norms[1](x), m[0], m[1])
        )
        x = x + m[2][:, None] * mixed
        x = x + m[5][:, None] * self.feed_forward(_modulate(self.norms[2](x), m[3], m[4]))
        text = text + t[2][:, None] * mixed_text
        fed = self.text_feed_forward(_modulate(self.norms[3](text), t[3], t[4]))
        return text + t[5][:, None] * fed, x


class SingleBlock(nn.Module):
    """Attention and MLP side by side, from one projection to one projection."""

    def __init__(self) -> None:
        super().__init__()
        self.modulation = Modulation(3)
        self.norm = nn.LayerNorm(HIDDEN, elementwise_affine=False)
        self.linear1 = nn.Linear(HIDDEN, 7 * HIDDEN)
        self.norm_q, self.norm_k = (nn.RMSNorm(HIDDEN) for _ in range(2))
        self.linear2 = nn.Linear(5 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        shift, scale, gate = self.modulation(time)
        qkv, up = self.linear1(_modulate(self.norm(x), shift, scale)).split(
            [3 * HIDDEN, 4 * HIDDEN], dim=-1
        )
        q, k, v = qkv.chunk(3, dim=-1)
        mixed = _attend(_rotated(self.norm_q(q)), _rotated(self.norm_k(k)), v)
        fed = F.gelu(up, approximate="tanh")
        return x + gate[:, None] * self.linear2(torch.cat([mixed, fed], dim=-1))


class CrossAttention(nn.Module):
    """Attention of the image to the text."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key_value = nn.Linear(HIDDEN, 2 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        k, v = self.key_value(text).chunk(2, dim=-1)
        return self.out(_attend(self.query(x), k, v))  # type: ignore[no-any-return]


class PixArtBlock(nn.Module):
    """Self-attention, cross-attention and MLP; a table of its own added to a shared modulation."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(6, HIDDEN) / HIDDEN**0.5)
        self.norm1 = nn.LayerNorm(HIDDEN, elementwise_affine=False)
        self.attention = SelfAttention()
        self.cross_attention = CrossAttention()
        self.norm2 = nn.LayerNorm(HIDDEN, elementwise_affine=False)
        self.feed_forward = FeedForward()

    def forward(self, x: torch.Tensor, text: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
        parts = (self.table[None] + shared).unbind(1)
        shift, scale, gate, shift2, scale2, gate2 = parts
        x = x + gate[:, None] * self.attention(_modulate(self.norm1(x), shift, scale))
        x = x + self.cross_attention(x, text)
        return x + gate2[:, None] * self.feed_forward(_modulate(self.norm2(x), shift2, scale2))


class PixArt(nn.Module):
    """One denoising step with a modulation that all blocks share."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.patches = nn.Linear(64, HIDDEN)
        self.words = nn.Sequential(nn.Linear(768, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN))
        self.time = nn.Sequential(nn.Linear(256, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN))
        self.modulation = Modulation(6)
        self.blocks = nn.ModuleList(PixArtBlock() for _ in range(blocks))
        self.norm = nn.LayerNorm(HIDDEN, elementwise_affine=False)
        self.out = nn.Linear(HIDDEN, 64)

    def forward(
        self, latent: torch.Tensor, words: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        x, text = self.patches(latent), self.words(words)
        shared = torch.stack(self.modulation(self.time(step)), dim=1)
        for block in self.blocks:
            x = block(x, text, shared)
        return self.out(self.norm(x))  # type: ignore[no-any-return]


class GatedFeedForward(nn.Module):
    """Two projections whose product is projected back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(HIDDEN, 2816, bias=False) for _ in range(2))
        self.down = nn.Linear(2816, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]


class RotaryAttention(nn.Module):
    """Attention over text and image as one sequence, with norms of queries and keys."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.norm_q, self.norm_k = (nn.RMSNorm(HIDDEN) for _ in range(2))
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        mixed = _attend(_rotated(self.norm_q(q)), _rotated(self.norm_k(k)), v)
        return self.out(mixed)  # type: ignore[no-any-return]


class LuminaBlock(nn.Module):
    """Norms around attention and around the MLP, scaled and gated but never shifted."""

    def __init__(self) -> None:
        super().__init__()
        self.modulation = Modulation(4)
        self.norms = nn.ModuleList(nn.RMSNorm(HIDDEN) for _ in range(4))
        self.attention = RotaryAttention()
        self.feed_forward = GatedFeedForward()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        scale, gate, scale2, gate2 = (part[:, None] for part in self.modulation(time))
        mixed = self.attention(self.norms[0](x) * (1 + scale))
        x = x + gate.tanh() * self.norms[1](mixed)
        fed = self.feed_forward(self.norms[2](x) * (1 + scale2))
        return x + gate2.tanh() * self.norms[3](fed)  # type: ignore[no-any-return]


class Lumina(nn.Module):
    """One denoising step over text and image as one sequence."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.patches = nn.Linear(64, HIDDEN)
        self.words = nn.Sequential(nn.RMSNorm(768), nn.Linear(768, HIDDEN))
        self.time = nn.Sequential(nn.Linear(256, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN))
        self.blocks = nn.ModuleList(LuminaBlock() for _ in range(blocks))
        self.norm = nn.LayerNorm(HIDDEN, elementwise_affine=False)
        self.out = nn.Linear(HIDDEN, 64)

    def forward(
        self, latent: torch.Tensor, words: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        x, time = torch.cat([self.words(words), self.patches(latent)], dim=1), self.time(step)
        for block in self.blocks:
            x = block(x, time)
        return self.out(self.norm(x[:, -latent.shape[1] :]))  # type: ignore[no-any-return]


class DiffusionTransformer(nn.Module):
    """One denoising step: embeddings, blocks, and the projection back to patches."""

    def __init__(self, kind: str, blocks: int) -> None:
        super().__init__()
        self.kind = kind
        self.patches = nn.Linear(64, HIDDEN)
        self.words = nn.Linear(768, HIDDEN)
        self.time = nn.Sequential(nn.Linear(256, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN))
        doubles = {"dit": 0, "sd3": blocks, "flux": blocks // 2}[kind]
        single = DiTBlock if kind == "dit" else SingleBlock
        self.double_blocks = nn.ModuleList(DoubleBlock(kind == "flux") for _ in range(doubles))
        self.blocks = nn.ModuleList(single() for _ in range(blocks - doubles))
        self.norm = nn.LayerNorm(HIDDEN, elementwise_affine=False)
        self.out = nn.Linear(HIDDEN, 64)

    def forward(
        self, latent: torch.Tensor, words: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        x, text, time = self.patches(latent), self.words(words), self.time(step)
        for double in self.double_blocks:
            text, x = double(text, x, time)
        if self.kind == "flux":
            x = torch.cat([text, x], dim=1)
        for block in self.blocks:
            x = block(x, time)
        return self.out(self.norm(x[:, -latent.shape[1] :]))  # type: ignore[no-any-return]


def build(kind: str, blocks: int) -> nn.Module:
    """The model of a name in `architectures.py`."""
    written: dict[str, type[nn.Module]] = {"pixart": PixArt, "lumina": Lumina}
    return written[kind](blocks) if kind in written else DiffusionTransformer(kind, blocks)


def inputs(batch: int, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Latent, words and time step of one batch."""
    kind = {"device": device, "dtype": torch.bfloat16}
    return (
        torch.randn(batch, IMAGE, 64, **kind),  # type: ignore[call-overload]
        torch.randn(batch, TEXT, 768, **kind),  # type: ignore[call-overload]
        torch.randn(batch, 256, **kind),  # type: ignore[call-overload]
    )
