from typing import Any

import numpy as np

_Int64s = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]

def nest(start: _Int64s, end: _Int64s, above: _Int64s, depth: _Int64s, /) -> None: ...
