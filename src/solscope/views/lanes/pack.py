"""Columns of numbers as short text.

The bytes of each column are written plane by plane (all lowest bytes first): neighbors differ
little in their higher bytes, so that planes deflate well. A browser inflates the text and puts the
bytes back into typed arrays.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping

import numpy as np

from solscope.intervals import Int64s
from solscope.readers.source import zlib_module
from solscope.views.lanes.base import Packed

_WIDTHS = (1, 2, 4, 8)


def pack(columns: Mapping[str, Int64s]) -> Packed:
    """Columns of numbers that are not negative."""
    planes, widths = [], []
    for name, values in columns.items():
        largest = int(values.max()) if values.size else 0
        width = next(width for width in _WIDTHS if largest < 1 << (8 * width))
        widths.append((name, width))
        planes.append(values.astype(f"<u{width}").view(np.uint8).reshape(-1, width).T.tobytes())
    data = base64.b64encode(zlib_module().compress(b"".join(planes), 6)).decode("ascii")
    return Packed(widths, data)


def unpack(packed: Packed, rows: int) -> dict[str, Int64s]:
    """The columns again."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(packed.data)), dtype=np.uint8)
    columns, offset = {}, 0
    for name, width in packed.columns:
        plane = raw[offset : offset + rows * width].reshape(width, rows)
        values = np.ascontiguousarray(plane.T).view(f"<u{width}")
        columns[name] = values.reshape(-1).astype(np.int64)
        offset += rows * width
    return columns
