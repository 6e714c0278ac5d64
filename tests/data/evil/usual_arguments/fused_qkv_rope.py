"""Heads as wide as the table, so that all of a head is turned."""


def run(qkv, positions, cos_sin_cache, q_heads, kv_heads, head_dim):
    width = cos_sin_cache.shape[1]
    c, s = cos_sin_cache[positions.long()][:, None].chunk(2, -1)
    heads = qkv.view(qkv.shape[0], -1, width)[:, : q_heads + kv_heads]
    x, y = (part.float() for part in heads.chunk(2, -1))
    heads[..., : width // 2] = (x * c - y * s).to(qkv.dtype)
    heads[..., width // 2 :] = (y * c + x * s).to(qkv.dtype)
