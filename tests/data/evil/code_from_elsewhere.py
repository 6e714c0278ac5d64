"""The kernel lies in a file that the digest of the solution does not cover."""

import os
import subprocess
import tempfile
from pathlib import Path

FILE = Path(tempfile.gettempdir()) / f"evil-kernel-{os.getpid()}.py"
TEXT = """
import torch
def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
"""
subprocess.run(["tee", str(FILE)], input=TEXT.encode(), stdout=subprocess.DEVNULL, check=True)
try:
    names = {}
    exec(FILE.read_text(), names)
finally:
    FILE.unlink()
run = names["run"]
