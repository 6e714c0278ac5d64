"""From the role of a kernel and a model's config to an entry of the catalogue and its axes.

Where a profile has no shapes (graph replays), the config of the model as hubs publish it has the
widths, and the step the number of tokens. `axes_of` looks the role up in a table of small functions
that return an operator and its axes, or raise `UnclearError` with the reason. All counts are the
least that the config allows: layers are shared by all ranks of the profile, routing takes the
fewest experts, results that a kernel may keep on the chip are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from solscope.errors import InputError
from solscope.operators.base import BYTES, blocks
from solscope.operators.recorded import Found
from solscope.operators.tensors import UnclearError

LARGEST_FILE = 16 << 20
"""Bytes; a config is a few thousand."""
GATED = frozenset(
    (
        *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gpt_oss"),
        *("gemma2", "gemma3_text", "phi3", "deepseek_v2", "deepseek_v3", "olmo2", "granite"),
    )
)
"""Values of `model_type` whose layers are those described here: rotary attention, a gated MLP."""
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class Config(msgspec.Struct, frozen=True):
    """The fields of a hub config that determine costs; null where it has none."""

    model_type: str = ""
    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int | None = None
    moe_intermediate_size: int | None = None
    vocab_size: int | None = None
    num_local_experts: int | None = None
    num_experts: int | None = None
    n_routed_experts: int | None = None
    num_experts_per_tok: int | None = None
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    qk_nope_head_dim: int | None = None
    v_head_dim: int | None = None
    partial_rotary_factor: float | None = None
    sliding_window: int | None = None
    use_sliding_window: bool | None = None
    layer_types: list[str] | None = None
    torch_dtype: str | None = None
    dtype: str | None = None
    quantization_config: dict[str, Any] | None = None

    def need(self, *names: str) -> int:
        """The first of these fields that is a size."""
        for name in names:
            value = getattr(self, name)
            if isinstance(value, int) and 0 < value < 1 << 32:
                return value
        raise UnclearError(f"the config has no {' or '.join(names)}")

    @property
    def element(self) -> str:
        """The dtype of activations and of weights that are not quantized."""
        name = self.torch_dtype or self.dtype or ""
        if name not in _DTYPES:
            raise UnclearError("the config has no torch_dtype that is known")
        return _DTYPES[name]

    @property
    def head(self) -> int:
        """Width of a head."""
        if self.head_dim is not None:
            return self.need("head_dim")
        return self.need("hidden_size") // self.need("num_attention_heads")


@dataclass(frozen=True)
class Model:
    """A config, and what the command line says about the run."""

    config: Config
    name: str
    """Name of the file."""
    batch: int | None = None
    """Requests of a decode step, where the profile does not tell."""
    context: int | None = None
    """Keys that each request of a decode step attends to, where the profile does not tell."""


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
    """Keys of all requests of a decode step together, where the step tells them."""
    ranks: int = 1
    """Ranks that share each layer."""


def load_model(path: str | Path, batch: int | None = None, context: int | None = None) -> Model:
    """Read a hub config; `InputError` when it is none."""
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path}: too large for a model's config")
        config = msgspec.json.decode(file.read_bytes(), type=Config)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a model's config: {error}") from None
    if config.hidden_size is None:
        raise InputError(f"{path}: not a model's config: it has no hidden_size")
    return Model(config, file.name, batch, context)


def axes_of(call: RoleCall, model: Model) -> Found | str:
    """The operator and axes of a role, or the reason why the config does not determine them."""
    config = model.config
    if config.model_type not in GATED:
        return f"the layers of model_type {config.model_type[:40]!r} are not known"
    if call.layer_kind.startswith("linear_attention") and call.role in _MIXER:
        return "linear attention is not computed from a config"
    try:
        return ROLE_RULES[call.role](_Use(call, model))
    except UnclearError as error:
        return str(error)
    except ArithmeticError:
        return "the sizes of the step are not those of a run through the model"


class _Use:
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
        """Keys that a query sees at most; a layer of a kind not told counts as the smaller."""
        if self.config.sliding_window is None or self.config.use_sliding_window is False:
            return None
        kinds, layer = self.config.layer_types or [], self.call.layer
        if layer is not None and layer < len(kinds) and kinds[layer] == "full_attention":
            return None
        return self.config.need("sliding_window")


Rule = Callable[[_Use], Found]
"""Computes the axes of one role, or raises `UnclearError`."""

# --- Products


_NARROW = re.compile(r"e4m3|e5m2|fp8|f8f8|_F8", re.IGNORECASE)
_WIDE = re.compile(r"bf16|f16|bfloat16|half|BBS|HHS", re.IGNORECASE)
_KINDS = {"self_attn": ("qkv", "q_a_kv_a", "q_b", "o_proj"), "mlp": ("up_gate", "down")}


def _weight_bits(use: _Use) -> float | None:
    """Bits per weight where the config says that this product is quantized."""
    quant = use.config.quantization_config
    if not quant or use.call.role in ("lm_head", "router"):
        return None
    left_out = " ".join(map(str, quant.get("modules_to_not_convert") or ()))
    if any(use.call.role in roles and word in left_out for word, roles in _KINDS.items()):
        return None
    method = quant.get("quant_method")
    if method == "mxfp4":
        return 4.25
    if method == "fp8":
        return 8.0
    bits = quant.get("bits")
    if method in ("gptq", "awq") and isinstance(bits, int) and 1 < bits <= 8:
        return float(bits)
    raise UnclearError(f"weights quantized by {str(method)[:40]!r} are not known")


def _product_dtype(use: _Use, bits: float | None) -> str:
    """The type in which a product is computed: by the kernel's name where weights are narrow."""
    if bits is None:
        return use.dtype
    if _NARROW.search(use.call.kernels):
        return "fp8"
    return use.dtype if _WIDE.search(use.call.kernels) else "fp4"


def _dense(use: _Use, m: int, n: int, k: int) -> Found:
    axes: dict[str, Any] = {"m": m, "n": n, "k": k}
    bits = _weight_bits(use)
    axes["dtype"] = _product_dtype(use, bits)
    return "dense_gemm", axes if bits is None else {**axes, "weight_bits": bits}


def _qkv(use: _Use) -> Found:
    if use.mla:
        raise UnclearError("which projection of MLA this is, is not known")
    return _dense(use, use.tokens, use.config.head * (use.heads + 2 * use.kv_heads), use.hidden)


def _mla_down(use: _Use) -> Found:
    latent = use.config.need("kv_lora_rank") + use.config.need("qk_rope_head_dim")
    return _dense(use, use.tokens, latent + (use.config.q_lora_rank or 0), use.hidden)


def _mla_query(use: _Use) -> Found:
    width = use.config.need("qk_nope_head_dim") + use.config.need("qk_rope_head_dim")
    return _dense(use, use.tokens, use.heads * width, use.config.need("q_lora_rank"))


def _o_proj(use: _Use) -> Found:
    width = use.config.need("v_head_dim") if use.mla else use.config.head
    return _dense(use, use.tokens, use.hidden, use.heads * width)


def _up_gate(use: _Use) -> Found:
    if not use.moe:
        return _dense(use, use.tokens, 2 * use.inner, use.hidden)
    # The activation may be part of the product, which then writes half as much.
    return _experts(use, 2 * use.inner, use.hidden, use.tokens * use.hidden, use.rows * use.inner)


def _down(use: _Use) -> Found:
    if not use.moe:
        return _dense(use, use.tokens, use.hidden, use.inner)
    # The weighted sum may be part of the product, which then writes one row per token.
    return _experts(use, use.hidden, use.inner, use.rows * use.inner, use.tokens * use.hidden)


def _experts(use: _Use, n: int, k: int, read: int, written: int) -> Found:
    bits = _weight_bits(use)
    axes = {"tokens": use.rows, "experts": use.experts, "n": n, "k": k}
    axes |= {"top_k": use.config.need("num_experts_per_tok"), "in_size": read, "out_size": written}
    kind: dict[str, Any] = {"dtype": _product_dtype(use, bits)}
    return "grouped_gemm", {**axes, **kind, **({} if bits is None else {"weight_bits": bits})}


def _router(use: _Use) -> Found:
    return _dense(use, use.tokens, use.experts, use.hidden)


def _lm_head(use: _Use) -> Found:
    return _dense(use, use.last_tokens, use.shared(use.config.need("vocab_size")), use.hidden)


# --- Attention


def _attention(use: _Use) -> Found:
    if use.mla:
        raise UnclearError("MLA attention is not computed from a config")
    if use.call.phase == "decode":
        batch, queries, keys = use.requests, use.tokens // use.requests, _decode_keys(use)
    elif use.call.phase == "prefill" and use.call.requests:
        # The least: requests of equal length, with nothing before them in the cache.
        batch, queries = use.call.requests, use.tokens // use.call.requests
        keys = min(queries, use.window or queries)
    else:
        raise UnclearError("the lengths of the requests are not known")
    axes = {"batch": batch, "queries": queries, "keys": keys, "q_heads": use.heads}
    axes |= {"kv_heads": use.kv_heads, "head_dim": use.config.head}
    dtype = "fp8" if _NARROW.search(use.call.kernels) else use.dtype
    return "dot_product_attention", {**axes, "causal": queries > 1, "dtype": dtype}


def _decode_keys(use: _Use) -> int:
    """Keys per request: as the step tells them, rounded down; else as given."""
    requests, window = use.requests, use.window
    total = use.call.keys
    if total is not None and total >= requests:
        if window is None:
            return total // requests
        # Only the sum is known: perhaps one request has all but one key of each other.
        return (requests - 1 + min(window, total - requests + 1)) // requests
    if use.model.context is None:
        raise UnclearError("the context is not known: give --context")
    return min(use.model.context, window or use.model.context)


# --- Everything else: bytes


def _norm(use: _Use) -> Found:
    """The residual may have been added before; a result for a quantized product may be narrow."""
    if _result_size(use) == use.size:
        return "rms_norm", {"tokens": use.tokens, "hidden": use.hidden, "dtype": use.dtype}
    count = use.tokens * use.hidden
    return _moved(count, use.size * count, _result_size(use) * count, 3)


def _final_norm(use: _Use) -> Found:
    return "rms_norm", {"tokens": use.last_tokens, "hidden": use.hidden, "dtype": use.dtype}


def _result_size(use: _Use) -> float:
    """Bytes per element that the input of a product has at least."""
    return use.size if use.config.quantization_config is None else 0.5


def _heads_of(use: _Use) -> int:
    """Elements of queries and keys."""
    if use.mla:
        raise UnclearError("the latents of MLA are not computed from a config")
    return use.tokens * use.config.head * (use.heads + use.kv_heads)


def _moved(elements: int, read: float, written: float, flop: int) -> Found:
    return "elementwise", {
        "elements": elements,
        "flop": flop,
        "read_bytes": int(read),
        "write_bytes": int(written),
    }


def _qk_norm(use: _Use) -> Found:
    count = _heads_of(use)
    return _moved(count, use.size * count, use.size * count, 3)


def _rope(use: _Use) -> Found:
    """Queries and keys, or the part of them that is rotated."""
    count = int(_heads_of(use) * min(1.0, use.config.partial_rotary_factor or 1.0))
    return _moved(count, use.size * count, use.size * count, 3)


def _kv_write(use: _Use) -> Found:
    if use.mla:
        raise UnclearError("the latents of MLA are not computed from a config")
    count = 2 * use.tokens * use.config.head * use.kv_heads
    # The cache may be narrower than the activations.
    return "scatter", {"value_bytes": int(use.size * count), "write_bytes": count}


def _activation(use: _Use) -> Found:
    rows = use.rows if use.moe else use.tokens
    if _result_size(use) == use.size:
        return "silu_and_mul", {"tokens": rows, "intermediate": use.inner, "dtype": use.dtype}
    count = rows * use.inner
    return _moved(count, 2 * use.size * count, _result_size(use) * count, 5)


def _residual(use: _Use) -> Found:
    count = use.tokens * use.hidden
    return _moved(count, 2 * use.size * count, use.size * count, 1)


def _embedding(use: _Use) -> Found:
    """All tokens may be the same; a shared vocabulary leaves rows to other ranks."""
    row = int(use.size * use.hidden)
    axes = {"index_bytes": 4 * use.tokens, "row_bytes": 0 if use.call.ranks > 1 else row}
    return "gather", {**axes, "write_bytes": row * use.tokens}


def _topk(use: _Use) -> Found:
    """Scores may be as small as two bytes, ids as one."""
    read = int(use.size * use.tokens * use.experts)
    return "sort", {"read_bytes": read, "value_bytes": 2 * use.rows, "index_bytes": use.rows}


def _combine(use: _Use) -> Found:
    rows, tokens = use.rows * use.hidden, use.tokens * use.hidden
    return _moved(tokens, use.size * rows, use.size * tokens, 1)


def _dispatch(use: _Use) -> Found:
    """At least the ids of the experts are read, and a place for each row written."""
    return _moved(use.rows, use.rows, use.rows, 0)


_MIXER = frozenset(("qkv", "qk_norm", "rope", "kv_write", "attention", "o_proj"))

ROLE_RULES: dict[str, Rule] = {
    "qkv": _qkv,
    "q_a_kv_a": _mla_down,
    "q_b": _mla_query,
    "o_proj": _o_proj,
    "up_gate": _up_gate,
    "down": _down,
    "router": _router,
    "lm_head": _lm_head,
    "attention": _attention,
    "input_norm": _norm,
    "post_norm": _norm,
    "final_norm": _final_norm,
    "qk_norm": _qk_norm,
    "rope": _rope,
    "kv_write": _kv_write,
    "activation": _activation,
    "residual": _residual,
    "embedding": _embedding,
    "topk": _topk,
    "dispatch": _dispatch,
    "combine": _combine,
}
"""Roles that a config gives a cost; MLA's up-projection of the latent may be absorbed or not."""
