from typing import Any

import numpy as np

_Int64s = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]

def walk(
    kind: _Int64s,
    number: _Int64s,
    due: _Int64s,
    queued: _Int64s,
    following: _Int64s,
    end: _Int64s,
    work: _Int64s,
    begun: _Int64s,
    slack: _Int64s,
    host: int,
    /,
) -> None: ...
