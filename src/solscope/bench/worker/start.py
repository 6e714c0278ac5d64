"""Starts a fork server: imports the package that this file lies in, by the name of the copy.

Isolated Python (`-I`) does not add the folder of a script to the path.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    own = Path(__file__).resolve().parent
    sys.path.insert(0, str(own.parent))
    importlib.import_module(f"{own.name}.fork_server").main(*sys.argv[1:])
