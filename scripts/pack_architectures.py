#!/usr/bin/env python3
"""Pack recordings of architectures for the repository: no arrows, no event numbers, zstd.

    python scripts/pack_architectures.py FROM TO

Each `NAME.json.gz` in FROM becomes `NAME.json.zst` in TO, about 40 % smaller. What is left out
(arrows from launches to kernels, running numbers of events) is known from correlation ids and
order; nothing that finds layers, or says what they are, reads it.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import zstandard

from solscope.files import new_file
from solscope.lab.archive import slim

LEVEL = 15
"""Levels above take five times as long and save another 7 %."""


def pack(file: Path, folder: Path) -> Path:
    """Write one recording to `folder`."""
    target = folder / (file.name.removesuffix(".gz") + ".zst")
    trace = slim(gzip.decompress(file.read_bytes()))
    with new_file(target) as work:
        work.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(trace))
    return target


def main() -> None:
    """Pack all recordings of a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(args.source.glob("*.json.gz")):
        print(
            f"{file.stat().st_size:9,} -> {pack(file, args.folder).stat().st_size:9,} {file.name}"
        )


if __name__ == "__main__":
    main()
