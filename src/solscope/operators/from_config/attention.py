"""Attention: softmax over the cache, latents of MLA, and the gated delta rule."""

from __future__ import annotations

from solscope.operators.calls.call import OperatorAxes
from solscope.operators.calls.lengths import Sums
from solscope.operators.from_config.products import NARROW, linear_widths
from solscope.operators.from_config.use import RoleRule, Use
from solscope.operators.tensors import UnclearError


def _attention(use: Use) -> OperatorAxes:
    if use.linear:
        raise UnclearError("a layer of linear attention has no other attention")
    if use.call.phase in ("prefill", "mixed") and use.call.prefilling is not None:
        return _by_sums(use, use.call.prefilling, use.call.decoding)
    if use.call.phase == "decode":
        batch, queries, keys = use.requests, use.tokens // use.requests, _decode_keys(use)
    elif use.call.phase == "prefill" and use.call.requests:
        # The least: requests of equal length, with nothing before them in the cache.
        batch, queries = use.call.requests, use.tokens // use.call.requests
        keys = min(queries, use.window or queries)
    else:
        raise UnclearError("the lengths of the requests are not known")
    if use.mla:
        return _latent(use, batch, queries, keys)
    axes = {"batch": batch, "queries": queries, "keys": keys, "q_heads": use.heads}
    axes |= {"kv_heads": use.kv_heads, "head_dim": use.config.head}
    return "dot_product_attention", {**axes, "causal": queries > 1, "dtype": _dtype(use)}


def _dtype(use: Use) -> str:
    return "fp8" if NARROW.search(use.call.kernels) else use.dtype


def _latent(use: Use, batch: int, queries: int, keys: int) -> OperatorAxes:
    """Decode on the latents; prefill with keys and values written out, which takes less."""
    rope, kind = use.config.need("qk_rope_head_dim"), _dtype(use)
    if use.call.phase == "decode" and queries == 1:
        axes = {"contexts": [[keys, batch]], "q_heads": use.heads, "rope_dim": rope}
        latent = use.config.need("kv_lora_rank")
        return "mla_decode_attention", {**axes, "latent_dim": latent, "dtype": kind}
    widths = {
        "nope_dim": use.config.need("qk_nope_head_dim"),
        "rope_dim": rope,
        "v_dim": use.config.need("v_head_dim"),
    }
    groups = [[queries, max(queries, keys), batch]]
    return "mla_prefill_attention", {
        "sequences": groups,
        "q_heads": use.heads,
        **widths,
        "dtype": kind,
    }


def _by_sums(use: Use, context: Sums, generation: Sums | None) -> OperatorAxes:
    """Requests that prefill and that decode in one call, from the sums that the step states.

    Pairs are exact without a window; lengths are means, rounded down, of which only sums count.
    With a window the fewest pairs are those of equal lengths with nothing before them.
    """
    if use.mla:
        raise UnclearError("MLA attention of a mixed step is not computed from a config")
    window = use.window
    present = [sums for sums in (context, generation) if sums is not None and sums.requests]
    groups, pairs = [], 0
    for sums in present:
        queries, keys = sums.means
        if window is None:
            pairs += sums.pairs
        elif sums is context:
            keys = queries
            pairs += sums.requests * _windowed(queries, window)
        else:
            keys = _least_in_window(sums.k, sums.requests, window)
            pairs += sums.requests * keys
        groups.append([queries, max(queries, keys), sums.requests])
    if not groups or min(count for _, _, count in groups) <= 0:
        raise UnclearError("the lengths of the requests are not known")
    heads = {"q_heads": use.heads, "kv_heads": use.kv_heads, "head_dim": use.config.head}
    return "unified_attention", {
        "sequences": groups,
        **heads,
        "pairs": max(0, pairs),
        "dtype": _dtype(use),
    }


def _windowed(queries: int, window: int) -> int:
    """Pairs of a causal mask over `queries` rows, each with the last `window` keys only."""
    full = min(queries, window)
    return full * (full + 1) // 2 + (queries - full) * window


def _least_in_window(total: int, requests: int, window: int) -> int:
    """Keys per request inside the window, at least, where only the sum of all keys is known.

    Perhaps one request has all but one key of each other.
    """
    return (requests - 1 + min(window, max(1, total - requests + 1))) // requests


def _decode_keys(use: Use) -> int:
    """Keys per request: as the step states them, rounded down; else as given."""
    requests, window = use.requests, use.window
    total = use.call.keys
    if total is not None and total >= requests:
        return total // requests if window is None else _least_in_window(total, requests, window)
    if use.model.context is None:
        raise UnclearError("the context is not known: give --context")
    return min(use.model.context, window or use.model.context)


def _delta_rule(use: Use) -> OperatorAxes:
    """The recurrence; its state may lie in memory in two bytes per value."""
    if not use.linear:
        raise UnclearError("the layer is not one of linear attention")
    if use.call.phase != "decode" and (use.call.phase != "prefill" or not use.call.requests):
        raise UnclearError("the lengths of the requests are not known")
    keys, _, heads = linear_widths(use)
    width, value = use.config.need("linear_key_head_dim"), use.config.need("linear_value_head_dim")
    requests = use.requests
    axes = {"sequences": requests, "tokens": use.tokens // requests, "q_heads": keys // width}
    axes |= {"v_heads": heads, "key_dim": width, "value_dim": value, "state_bytes": 2}
    return "gated_delta_rule_update", {**axes, "dtype": use.dtype}


def _conv(use: Use) -> OperatorAxes:
    keys, values, _ = linear_widths(use)
    axes = {"tokens": use.tokens, "dim": 2 * keys + values}
    width = use.config.need("linear_conv_kernel_dim")
    return "causal_conv1d", {**axes, "width": width, "dtype": use.dtype}


RULES: dict[str, RoleRule] = {"attention": _attention, "delta_rule": _delta_rule, "conv": _conv}
