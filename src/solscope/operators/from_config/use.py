"""One role in one layer and one run through the model, with the sizes that rules ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solscope.operators.calls.call import OperatorAxes
from solscope.operators.calls.lengths import Sums
from solscope.operators.cost import BYTES, blocks
from solscope.operators.from_config.config import Model
from solscope.operators.tensors import UnclearError


@dataclass(frozen=True)
class RoleCall:
    """One role in one layer and one run through the model."""

    role: str
    phase: str | None
    layer: int | None
    layer_kind: str
    kernels: str
    """Names of the kernels that serve it."""
    tokens: int | None
    requests: int | None
    keys: int | None
    """Keys of all requests of a decode step together, if the step states them."""
    ranks: int = 1
    """Ranks that share each layer."""
    comm: bool = False
    """Whether the kernels communicate."""
    products: int = 1
    """How many of the kernels do the work of the role."""
    prefilling: Sums | None = None
    """Requests of the step that prefill, if it states their lengths."""
    decoding: Sums | None = None
    """Requests of the step that decode."""


class Use:
    """A role call with the sizes that its rule asks for."""

    def __init__(self, call: RoleCall, model: Model) -> None:
        self.call, self.config, self.model = call, model.config, model
        self.hidden, self.dtype = self.config.need("hidden_size"), self.config.element
        self.size = BYTES[self.dtype]

    def shared(self, count: int) -> int:
        """What one rank has of `count`."""
        return blocks(count, self.call.ranks)

    @property
    def tokens(self) -> int:
        if self.call.tokens is not None:
            return self.call.tokens
        if self.call.phase == "decode" and self.model.batch is not None:
            return self.model.batch
        hint = ": give --batch" if self.call.phase == "decode" else ""
        raise UnclearError(f"the tokens of the step are not known{hint}")

    @property
    def last_tokens(self) -> int:
        """Rows from which a next token is computed: perhaps only the last of each request."""
        return self.tokens if self.call.phase == "decode" else min(self.tokens, self.requests)

    @property
    def requests(self) -> int:
        if self.call.phase == "decode":
            return self.call.requests or self.tokens
        return self.call.requests or 1

    @property
    def heads(self) -> int:
        return self.shared(self.config.need("num_attention_heads"))

    @property
    def kv_heads(self) -> int:
        return self.shared(self.config.need("num_key_value_heads", "num_attention_heads"))

    @property
    def experts(self) -> int:
        return self.config.need("num_local_experts", "num_experts", "n_routed_experts")

    @property
    def rows(self) -> int:
        """Pairs of a token and one of its experts."""
        return self.tokens * self.config.need("num_experts_per_tok")

    @property
    def linear(self) -> bool:
        """Whether the layer mixes tokens by linear attention."""
        return self.call.layer_kind.startswith("linear_attention")

    @property
    def moe(self) -> bool:
        return self.call.layer_kind.endswith("moe")

    @property
    def mla(self) -> bool:
        return self.config.kv_lora_rank is not None

    @property
    def inner(self) -> int:
        names = (
            ("moe_intermediate_size", "intermediate_size") if self.moe else ("intermediate_size",)
        )
        return self.shared(self.config.need(*names))

    @property
    def window(self) -> int | None:
        """Keys that a query sees at most; a layer of unknown kind counts as the smaller."""
        if not self.config.windowed:
            return None
        kinds, layer = self.config.layer_types or [], self.call.layer
        if layer is not None and layer < len(kinds) and kinds[layer] == "full_attention":
            return None
        return self.config.need("sliding_window")


RoleRule = Callable[[Use], OperatorAxes]
"""Computes the axes of one role, or raises `UnclearError`."""
