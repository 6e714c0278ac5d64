"""What a rank serves: a few decoder layers, split over ranks as serving engines split them.

`tp`: heads and columns are split, two all-reduces per layer and an all-gather of logits.
`ep`: requests are split, experts too; three all-to-alls per layer. `pp`: layers are split, and
microbatches are sent from stage to stage.
"""

from __future__ import annotations

from typing import Any

from solscope.lab.ranks.plan import WORLD, Scenario

LAYERS, HIDDEN, HEAD, HEADS, KV_HEADS, INNER = 4, 2048, 128, 16, 4, 6144
VOCABULARY, EXPERTS, CHOSEN, EXPERT_INNER = 32000, 16, 4, 1024
MICROBATCHES = 4
"""Parts of a batch that follow each other through a pipeline."""


class Model:
    """One rank's part of the model; `step` decodes one token per request."""

    def __init__(self, scenario: Scenario, rank: int, batch: int, device: str = "cuda") -> None:
        import torch

        self.kind, self.rank, self.batch = scenario.parallelism, rank, batch
        self.torch = torch
        self.device = torch.device(device, 0) if device == "cuda" else torch.device(device)
        split = WORLD if self.kind == "tp" else 1
        self.heads, self.kv_heads = HEADS // split, KV_HEADS // split
        self.layers = [self._layer(split) for _ in range(LAYERS)]
        hot = scenario.fault == "hot_expert"
        self.router_bias = self._router_bias(scenario) if hot else None
        rows = batch // MICROBATCHES if self.kind == "pp" else batch
        self.rows = rows
        self.embedding = self._random(VOCABULARY, HIDDEN)
        self.head = self._random(HIDDEN, VOCABULARY // split)
        self.norm = self._ones()
        length = scenario.context + 64
        shape = (rows, length, self.kv_heads, HEAD)
        self.keys = [self._random(*shape) for _ in range(LAYERS)]
        self.values = [self._random(*shape) for _ in range(LAYERS)]
        place = torch.full((rows,), scenario.context, device=self.device, dtype=torch.long)
        self.place = place
        self.at = torch.arange(rows, device=self.device)
        self.mask = (torch.arange(length, device=self.device)[None] <= place[:, None])[
            :, None, None
        ]
        self.tokens = torch.randint(0, VOCABULARY, (rows,), device=self.device)
        self.logits = (
            torch.empty(WORLD, rows, VOCABULARY // WORLD, device=self.device, dtype=torch.bfloat16)
            if self.kind == "tp"
            else None
        )

    def step(self) -> Any:
        """Decode one token for each request; returns the tokens, still on the GPU."""
        import torch.distributed as dist

        if self.kind == "pp":
            return self._pipeline()
        logits = self._decoder(self.embedding[self.tokens])
        if self.kind == "tp":
            dist.all_gather_into_tensor(self.logits.view(WORLD * self.rows, -1), logits)  # type: ignore[union-attr]
            logits = self.logits.permute(1, 0, 2).reshape(self.rows, -1)  # type: ignore[union-attr]
        self.tokens.copy_(logits.argmax(-1))
        return self.tokens

    def _pipeline(self) -> Any:
        """Microbatches through this stage: received, computed, sent on."""
        import torch.distributed as dist

        for _ in range(MICROBATCHES):
            if self.rank == 0:
                x = self.embedding[self.tokens]
            else:
                x = self.torch.empty(
                    self.rows, HIDDEN, device=self.device, dtype=self.torch.bfloat16
                )
                dist.recv(x, src=self.rank - 1)
            x = self._blocks(x)
            if self.rank < WORLD - 1:
                dist.send(x, dst=self.rank + 1)
        tokens = self.tokens
        if self.rank == WORLD - 1:
            tokens.copy_((self._normed(x, self.norm) @ self.head).argmax(-1))
        dist.broadcast(tokens, src=WORLD - 1)
        return tokens

    def _decoder(self, x: Any) -> Any:
        return self._normed(self._blocks(x), self.norm) @ self.head

    def _blocks(self, x: Any) -> Any:
        import torch.distributed as dist

        for number, layer in enumerate(self.layers):
            a = self._attention(number, layer, self._normed(x, layer["n1"]))
            if self.kind == "tp":
                dist.all_reduce(a)
            x = x + a
            h = self._normed(x, layer["n2"])
            y = self._experts(layer, h) if self.kind == "ep" else self._dense(layer, h)
            if self.kind == "tp":
                dist.all_reduce(y)
            x = x + y
        return x

    def _normed(self, x: Any, weight: Any) -> Any:
        return self.torch.nn.functional.rms_norm(x, (HIDDEN,), weight)

    def _attention(self, number: int, layer: dict[str, Any], h: Any) -> Any:
        rows = h.shape[0]
        split = [self.heads, self.kv_heads, self.kv_heads]
        q, k, v = (h @ layer["qkv"]).view(rows, -1, HEAD).split(split, 1)
        self.keys[number].index_put_((self.at, self.place), k)
        self.values[number].index_put_((self.at, self.place), v)
        a = self.torch.nn.functional.scaled_dot_product_attention(
            q.unsqueeze(2),
            self.keys[number].transpose(1, 2),
            self.values[number].transpose(1, 2),
            attn_mask=self.mask,
            enable_gqa=True,
        )
        return a.reshape(rows, -1) @ layer["o"]

    def _dense(self, layer: dict[str, Any], h: Any) -> Any:
        gate, up = (h @ layer["gate_up"]).chunk(2, -1)
        return (self.torch.nn.functional.silu(gate) * up) @ layer["down"]

    def _experts(self, layer: dict[str, Any], h: Any) -> Any:
        """Experts on all ranks: counts, rows there, grouped products, rows back."""
        import torch.distributed as dist

        torch, own = self.torch, EXPERTS // WORLD
        scores = h @ layer["router"]
        if self.router_bias is not None:
            scores = scores + self.router_bias
        weight, chosen = torch.softmax(scores.float(), -1).topk(CHOSEN, -1)
        flat = chosen.flatten()
        order = flat.argsort()
        counts = torch.bincount(flat, minlength=EXPERTS)
        coming = torch.empty(WORLD, own, dtype=counts.dtype, device=self.device)
        dist.all_to_all_single(coming.view(-1), counts)
        send, receive = counts.view(WORLD, -1).sum(1).tolist(), coming.sum(1).tolist()
        x = h[order // CHOSEN]
        y = torch.empty(sum(receive), HIDDEN, device=self.device, dtype=h.dtype)
        dist.all_to_all_single(y, x, receive, send)
        experts = torch.arange(own, device=self.device).repeat(WORLD)
        which = torch.repeat_interleave(experts, coming.flatten())
        by_expert = which.argsort()
        ends = torch.bincount(which, minlength=own).cumsum(0).int()
        gate, up = torch._grouped_mm(y[by_expert], layer["e1"], offs=ends).chunk(2, -1)
        z = torch._grouped_mm(torch.nn.functional.silu(gate) * up, layer["e2"], offs=ends)
        back = torch.empty_like(z)
        back[by_expert] = z
        got = torch.empty_like(x)
        dist.all_to_all_single(got, back, send, receive)
        placed = torch.empty_like(got)
        placed[order] = got
        return (placed.view(-1, CHOSEN, HIDDEN) * weight.unsqueeze(-1).to(h.dtype)).sum(1)

    def _layer(self, split: int) -> dict[str, Any]:
        width = (self.heads + 2 * self.kv_heads) * HEAD
        layer = {
            "n1": self._ones(),
            "n2": self._ones(),
            "qkv": self._random(HIDDEN, width),
            "o": self._random(self.heads * HEAD, HIDDEN),
        }
        if self.kind == "ep":
            own = EXPERTS // WORLD
            layer["router"] = self._random(HIDDEN, EXPERTS)
            layer["e1"] = self._random(own, HIDDEN, 2 * EXPERT_INNER)
            layer["e2"] = self._random(own, EXPERT_INNER, HIDDEN)
        else:
            layer["gate_up"] = self._random(HIDDEN, 2 * INNER // split)
            layer["down"] = self._random(INNER // split, HIDDEN)
        return layer

    def _router_bias(self, scenario: Scenario) -> Any:
        """A preference for the experts of the rank at fault."""
        bias = self.torch.zeros(EXPERTS, device=self.device, dtype=self.torch.bfloat16)
        own = EXPERTS // WORLD
        first = (scenario.rank or 0) * own
        bias[first : first + own] = 1.0 if scenario.strength == 1 else 4.0
        return bias

    def _random(self, *shape: int) -> Any:
        made = self.torch.randn(*shape, device=self.device, dtype=self.torch.bfloat16)
        return made * 0.02

    def _ones(self) -> Any:
        return self.torch.ones(HIDDEN, device=self.device, dtype=self.torch.bfloat16)
