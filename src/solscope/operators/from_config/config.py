"""A model's config as hubs publish it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from solscope.errors import InputError
from solscope.operators.tensors import UnclearError

LARGEST_FILE = 16 << 20
"""Bytes; a config is a few thousand."""
_QUANTIZATION = ("quant_method", "bits", "modules_to_not_convert")
"""What costs depend on; lists of scales and layers can be far longer than the rest of a config."""
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
    n_shared_experts: int | None = None
    shared_expert_intermediate_size: int | None = None
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    qk_nope_head_dim: int | None = None
    v_head_dim: int | None = None
    linear_num_key_heads: int | None = None
    linear_num_value_heads: int | None = None
    linear_key_head_dim: int | None = None
    linear_value_head_dim: int | None = None
    linear_conv_kernel_dim: int | None = None
    partial_rotary_factor: float | None = None
    sliding_window: int | None = None
    use_sliding_window: bool | None = None
    layer_types: list[str] | None = None
    layers_block_type: list[str] | None = None
    mlp_layer_types: list[str] | None = None
    first_k_dense_replace: int | None = None
    decoder_sparse_step: int | None = None
    mlp_only_layers: list[int] | None = None
    moe_layer_freq: int | list[int] | None = None
    interleave_moe_layer_step: int | None = None
    expert_layer_period: int | None = None
    moe_layer_start_index: int | None = None
    attn_layer_period: int | None = None
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
    def windowed(self) -> bool:
        """Whether layers attend to a window of the keys, unless `layer_types` says otherwise."""
        return self.sliding_window is not None and self.use_sliding_window is not False

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
    """Requests of a decode step, if the profile does not state them."""
    context: int | None = None
    """Keys that each request of a decode step attends to, if the profile does not state them."""


def load_model(path: str | Path, batch: int | None = None, context: int | None = None) -> Model:
    """Read a hub config; `InputError` when it is none."""
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path}: too large for a model's config")
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    return replace(parse_model(data, str(path)), name=file.name, batch=batch, context=context)


def parse_model(data: bytes, name: str) -> Model:
    """The bytes of a hub config that is called `name`; `InputError` when it is none."""
    try:
        config = msgspec.json.decode(data, type=Config)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{name}: not a model's config: {error}") from None
    if config.hidden_size is None:
        raise InputError(f"{name}: not a model's config: it has no hidden_size")
    if quant := config.quantization_config:
        used = {key: quant.get(key) for key in _QUANTIZATION}
        config = msgspec.structs.replace(config, quantization_config=used)
    return Model(config, name)
