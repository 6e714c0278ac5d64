"""Names of roles and of the groups that they belong to; `roles.py` finds them."""

from __future__ import annotations

ROLES = {
    "modulation": "scale and shift of a norm by a condition, and the products that make them",
    "input_norm": "norm at the start of the layer",
    "qkv": "projection to queries, keys and values (or of linear attention's inputs)",
    "q_a_kv_a": "MLA: down-projections of query and latent",
    "q_b": "MLA: up-projection of the query",
    "kv_b": "MLA: up-projection of the latent, or its absorbed product",
    "qk_norm": "norm of queries and keys (MLA: of the latents)",
    "rope": "rotary position embedding",
    "kv_write": "write of keys and values to the cache",
    "attention": "attention proper, with its preparation",
    "attention_combine": "reduction of partial attention results",
    "conv": "short convolution of linear attention",
    "gating": "gates: decay and output gate",
    "delta_rule": "state update and readout of linear attention",
    "o_proj": "output projection of attention",
    "all_reduce": "communication after o_proj or down",
    "residual": "residual addition",
    "post_norm": "norm before the feed-forward part",
    "router": "scores of the experts",
    "topk": "choice of the experts",
    "dispatch": "grouping or sending of tokens by expert",
    "up_gate": "up and gate projection",
    "activation": "activation and its product",
    "down": "down projection",
    "combine": "return and weighted sum of the experts' results",
    "shared_expert": "expert that every token passes",
    "embedding": "token embedding",
    "final_norm": "norm after the last layer",
    "lm_head": "projection to the vocabulary",
    "sampler": "choice of the next token",
}
"""Every role and what it means. What has none of them is `other`."""
OTHER = "other"
GROUPS = ("attention", "gate", "moe", "shared", "mlp")
