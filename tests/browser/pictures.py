"""Pictures of pages, small enough to keep: mean colors of blocks, and how much of a chart is drawn.

Fonts differ between machines, so single pixels are not compared. A page is reduced to the mean
colors of `BLOCKS` of its first screen and of each chart; of a chart, the share of colored pixels is
kept as well, since marks are colored and axes and words are gray.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from playwright.sync_api import Page

Pixels = npt.NDArray[np.uint8]

KEPT = Path(__file__).parents[1] / "data" / "pictures"
BLOCKS = (24, 15)
"""Columns and rows of a small picture."""
MEAN = 10.0
"""How much all blocks may differ on average, of 255: words of another font."""
FAR, MOST_FAR = 48.0, 0.12
"""A block that differs by this much holds something else; this share of them may."""
COLORED = 0.0005
"""From this share of colored pixels on, a chart has marks."""
TIMES = 1.8
"""A chart has at most this many times as many colored pixels as before, and at least 1 / this."""

# The picture goes to a canvas of an empty page, which the content policy does not bind.
REDUCE = """async ([data, boxes, columns, rows]) => {
  const answer = await fetch("data:image/jpeg;base64," + data);
  const bitmap = await createImageBitmap(await answer.blob());
  return boxes.map(([left, top, width, height]) => {
    const canvas = new OffscreenCanvas(Math.max(1, width), Math.max(1, height));
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(bitmap, -left, -top);
    const { data: pixels } = context.getImageData(0, 0, canvas.width, canvas.height);
    const sums = new Float64Array(3 * columns * rows), counts = new Float64Array(columns * rows);
    let colored = 0;
    for (let y = 0; y < canvas.height; y++) {
      const row = Math.floor(y * rows / canvas.height) * columns;
      for (let x = 0; x < canvas.width; x++) {
        const at = 4 * (y * canvas.width + x);
        const [r, g, b] = [pixels[at], pixels[at + 1], pixels[at + 2]];
        if (Math.max(r, g, b) - Math.min(r, g, b) > 64) colored++;
        const block = row + Math.floor(x * columns / canvas.width);
        counts[block]++;
        sums[3 * block] += r;
        sums[3 * block + 1] += g;
        sums[3 * block + 2] += b;
      }
    }
    const means = [...sums].map((sum, at) => sum / Math.max(1, counts[Math.floor(at / 3)]));
    return [means.map(Math.round), colored / (canvas.width * canvas.height)];
  });
}"""
CHARTS = """() => [...document.querySelectorAll(".chart, .timeline .lanes")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height > 20)
  .map((one) => {
    const box = one.getBoundingClientRect();
    const place = [box.left + scrollX, box.top + scrollY, box.width, box.height];
    return [one.closest("section")?.id ?? "page", ...place.map(Math.round)];
  })"""


@dataclass(frozen=True)
class Tile:
    """A part of a page: its first screen, or a chart named after its section."""

    name: str
    blocks: Pixels
    """Rows, columns, red, green and blue."""
    colored: float


def take(page: Page, reducer: Page, *, whole: bool = True) -> list[Tile]:
    """The first screen of a page, and with `whole` every chart."""
    size = page.viewport_size
    assert size is not None
    charts = page.evaluate(CHARTS) if whole else []
    shot = page.screenshot(full_page=whole, type="jpeg", quality=90, animations="disabled")
    boxes = [[0, 0, size["width"], size["height"]], *(chart[1:] for chart in charts)]
    data = base64.b64encode(shot).decode()
    reduced = reducer.evaluate(REDUCE, [data, boxes, *BLOCKS])
    names = ["first screen", *(chart[0] for chart in charts)]
    shape = (BLOCKS[1], BLOCKS[0], 3)
    return [
        Tile(name, np.array(blocks, np.uint8).reshape(shape), colored)
        for name, (blocks, colored) in zip(names, reduced, strict=True)
    ]


def differences(now: list[Tile], kept: list[Tile]) -> list[str]:
    """What is not as it was, in words; empty where the pictures are alike."""
    names, before = [tile.name for tile in now], [tile.name for tile in kept]
    if names != before:
        return [f"the page shows {names}, and showed {before}"]
    return [
        f"{one.name}: {text}"
        for one, other in zip(now, kept, strict=True)
        for text in _differs(one, other)
    ]


def _differs(now: Tile, kept: Tile) -> list[str]:
    apart = np.abs(now.blocks.astype(float) - kept.blocks.astype(float)).max(axis=2)
    mean, far = float(apart.mean()), float((apart > FAR).mean())
    found = []
    if mean > MEAN or far > MOST_FAR:
        found.append(f"blocks differ by {mean:.1f} on average, {100 * far:.0f} % by over {FAR:.0f}")
    if now.name == "first screen":
        return found
    # The few points of a small chart cannot be counted, but they cannot all be gone either.
    blank = now.colored == 0 < kept.colored
    drawn = blank or max(now.colored, kept.colored) >= COLORED
    if drawn and not kept.colored / TIMES <= now.colored <= kept.colored * TIMES:
        found.append(f"{100 * now.colored:.2f} % is colored, and was {100 * kept.colored:.2f} %")
    return found


def write(view: str, pictures: dict[str, list[Tile]]) -> None:
    """Keep the pictures of a view: one PNG to look at, and a list of what it shows."""
    KEPT.mkdir(parents=True, exist_ok=True)
    rows = [np.concatenate([tile.blocks for tile in tiles], axis=1) for tiles in pictures.values()]
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in rows]
    _write_png(KEPT / f"{view}.png", np.concatenate(padded))
    listed = {
        name: [[tile.name, round(tile.colored, 5)] for tile in tiles]
        for name, tiles in pictures.items()
    }
    (KEPT / f"{view}.json").write_text(json.dumps(listed, indent=0) + "\n", "utf-8")


def read(view: str) -> dict[str, list[Tile]]:
    """The pictures that are kept of a view, by width and colors."""
    listed: dict[str, list[Any]] = json.loads((KEPT / f"{view}.json").read_text("utf-8"))
    pixels = _read_png(KEPT / f"{view}.png")
    columns, rows = BLOCKS
    return {
        name: [
            Tile(
                part,
                pixels[rows * y : rows * (y + 1), columns * x : columns * (x + 1)],
                colored,
            )
            for x, (part, colored) in enumerate(tiles)
        ]
        for y, (name, tiles) in enumerate(listed.items())
    }


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _write_png(path: Path, pixels: Pixels) -> None:
    """Eight bits per color, and no filter: `_read_png` reads only such files."""
    height, width, _ = pixels.shape
    lines = np.pad(pixels.reshape(height, 3 * width), ((0, 0), (1, 0)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(lines.tobytes(), 9)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", data), _chunk(b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def _read_png(path: Path) -> Pixels:
    raw = path.read_bytes()
    width, height = struct.unpack(">II", raw[16:24])
    size = struct.unpack(">I", raw[33:37])[0]
    lines = np.frombuffer(zlib.decompress(raw[41 : 41 + size]), np.uint8)
    return lines.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)
