"""Right results, but half the work is joined only by the next call."""

import torch

SIDE, PENDING = None, []


def run(x, weight, eps):
    global SIDE
    if SIDE is None:
        SIDE = torch.cuda.Stream()
    SIDE.wait_stream(torch.cuda.current_stream())
    out = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
    with torch.cuda.stream(SIDE):
        torch.cuda._sleep(1_000_000)
    return out
