"""Is this kernel really better: run solutions against references, time them, score them.

`catalog.py` says what a solution is, `evaluate.py` runs it in workers (`worker.py`), `check.py`
judges it, `timing.py` times it, `score.py` and `contrast.py` read the results.
"""

from __future__ import annotations
