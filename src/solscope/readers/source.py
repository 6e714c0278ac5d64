"""Bytes of a file, decompressed as they stream: plain, gzip, zstd or xz, detected by magic bytes.

Guards against compression bombs: beyond `FREE_BYTES` of output, a file that has grown by more than
`max_expansion` is refused. A compressed file that ends early yields what could be decompressed and
then raises `TruncatedStream`, so that a reader can keep what it has.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import zlib as _stdlib_zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from solscope.errors import DamagedFileError, InputError, LimitError
from solscope.readers.base import Head, ReadOptions

Item = TypeVar("Item")

HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 1 << 20
FREE_BYTES = 64 << 20
"""A file may always grow to this size: small traces of one repeated kernel compress very well."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_XZ = b"\xfd7zXZ\0"
_XZ_MEMORY = 256 << 20
"""What decompressing xz may use: the dictionary of `xz -9e` is 64 MiB."""
_ZSTD_BITE = 2048
"""Bytes given to zstd at once: four of them can expand to 128 KiB."""


_ZSTD_BLOCK = 128 * 1024 + 64
"""The most that zstd needs to yield anything: a block that does not compress, and headers."""


class TruncatedStream(Exception):  # noqa: N818 - a signal between source and reader, not an error
    """The compressed stream ended before its end mark; what came before was yielded."""


def zlib_module() -> Any:
    """zlib-ng where it is installed (2.5 times the speed), else the standard library's."""
    try:
        from zlib_ng import zlib_ng
    except ImportError:
        return _stdlib_zlib
    return zlib_ng


def open_binary(path: Path) -> BinaryIO:
    """Open `path`, turning operating system errors into one clear line."""
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder, not a profile")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a regular file; save it to one first")
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror or error})") from error


def read_head(path: Path) -> Head:
    """The first bytes of the file, decompressed, for `sniff`."""
    with open_binary(path) as file:
        raw = file.read(HEAD_BYTES + _ZSTD_BLOCK)
    if not raw:
        raise InputError(f"{path} is empty")
    data = b""
    try:
        for piece in _inflate(iter([raw]), raw, path):
            data += piece
            if len(data) >= HEAD_BYTES:
                break
    except TruncatedStream as stop:
        if not data:
            raise DamagedFileError(f"{path}: damaged compressed file ({stop})") from stop
    except (_stdlib_zlib.error, zlib_module().error, DamagedFileError) as error:
        if not data:
            raise DamagedFileError(f"{path}: damaged compressed file ({error})") from error
    return Head(path, data[:HEAD_BYTES])


def stream(path: Path, options: ReadOptions) -> Iterator[bytes]:
    """Yield the decompressed bytes of `path` in pieces of about `CHUNK_BYTES`."""
    consumed = produced = 0
    with open_binary(path) as file:
        size = os.fstat(file.fileno()).st_size
        magic = file.read(len(_XZ))
        file.seek(0)
        step = CHUNK_BYTES // 8 if magic.startswith((_GZIP, _ZSTD, _XZ)) else CHUNK_BYTES

        def blocks() -> Iterator[bytes]:
            nonlocal consumed
            while block := file.read(step):
                consumed += len(block)
                if options.progress is not None:
                    options.progress(consumed, size)
                yield block

        try:
            for piece in _inflate(blocks(), magic, path):
                produced += len(piece)
                if produced > FREE_BYTES and produced > consumed * options.max_expansion:
                    raise LimitError(
                        f"{path}: grows more than {options.max_expansion}-fold when decompressed "
                        f"({produced >> 20} MiB so far); if you trust it, pass a larger "
                        "--max-expansion"
                    )
                yield piece
        except (_stdlib_zlib.error, zlib_module().error) as error:
            if not produced:
                raise DamagedFileError(f"{path}: damaged gzip data ({error})") from error
            raise TruncatedStream(f"damaged gzip data after {produced} bytes") from error


def read_all(path: Path, options: ReadOptions, limit_bytes: int) -> bytes:
    """The whole file in memory, for formats that are small by nature; refused beyond the limit."""
    pieces: list[bytes] = []
    total = 0
    try:
        for piece in stream(path, options):
            total += len(piece)
            if total > limit_bytes:
                raise LimitError(f"{path}: larger than {limit_bytes >> 20} MiB for this format")
            pieces.append(piece)
    except TruncatedStream as stop:
        raise DamagedFileError(f"{path}: the compressed file is truncated ({stop})") from stop
    return b"".join(pieces)


def _inflate(blocks: Iterator[bytes], magic: bytes, path: Path) -> Iterator[bytes]:
    if magic.startswith(_GZIP):
        return _gunzip(blocks)
    if magic.startswith(_ZSTD):
        return _unzstd(blocks)
    if magic.startswith(_XZ):
        return _unxz(blocks, path)
    return blocks


def _gunzip(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Inflate all gzip members; output per step is bounded, so a bomb cannot fill the memory."""
    zlib = zlib_module()
    decoder = zlib.decompressobj(31)
    started = False
    for block in blocks:
        data = block
        while data:
            if decoder.eof:
                # Zero padding after the last member is allowed; anything else starts a new member.
                data = data.lstrip(b"\0")
                if not data:
                    break
                if data[:1] != _GZIP[:1]:
                    return
                decoder = zlib.decompressobj(31)
            started = True
            piece = decoder.decompress(data, CHUNK_BYTES)
            if piece:
                yield piece
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if started and not decoder.eof:
        while piece := decoder.decompress(decoder.unconsumed_tail, CHUNK_BYTES):
            yield piece
        raise TruncatedStream("the gzip stream has no end mark")


def _unzstd(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress all zstd frames; small bites bound the output per step, as for gzip."""
    import zstandard

    decoder = zstandard.ZstdDecompressor().decompressobj()
    for block in blocks:
        for start in range(0, len(block), _ZSTD_BITE):
            data = block[start : start + _ZSTD_BITE]
            while data:
                if decoder.eof:
                    decoder = zstandard.ZstdDecompressor().decompressobj()
                try:
                    piece = decoder.decompress(data)
                except zstandard.ZstdError as error:
                    raise TruncatedStream(f"damaged zstd data ({error})") from error
                if piece:
                    yield piece
                data = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise TruncatedStream("the zstd stream has no end mark")


def _unxz(blocks: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Decompress all xz streams; output per step and memory are bounded."""
    import lzma

    def fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    decoder = fresh()
    for block in blocks:
        data = block
        while True:
            if decoder.eof:
                # Zero padding after a stream is allowed; anything else starts a new one.
                data = data.lstrip(b"\0")
                if not data:
                    break
                decoder = fresh()
            try:
                piece = decoder.decompress(data, CHUNK_BYTES)
            except lzma.LZMAError as error:
                if "Memory usage limit" in str(error):
                    raise LimitError(
                        f"{path}: needs more than {_XZ_MEMORY >> 20} MiB to decompress; do that "
                        "first (`xz -d`)"
                    ) from error
                raise TruncatedStream(f"damaged xz data ({error})") from error
            if piece:
                yield piece
            data = decoder.unused_data if decoder.eof else b""
            if not data and (decoder.eof or decoder.needs_input):
                break
    if not decoder.eof:
        raise TruncatedStream("the xz stream has no end mark")


class Prefetched(Iterator[Item]):
    """Items that a thread produces ahead of their use, from now on.

    The thread ends with the last item, when this is closed, and when this is dropped.
    """

    def __init__(self, items: Iterator[Item], depth: int, name: str) -> None:
        self._ready: queue.Queue[Item | BaseException | None] = queue.Queue(depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_produce, args=(items, self._ready, self._stop), name=name, daemon=True
        )
        self._thread.start()

    def __next__(self) -> Item:
        if self._stop.is_set():
            raise StopIteration
        item = self._ready.get()
        if item is None:
            self.close()
            raise StopIteration
        if isinstance(item, BaseException):
            self.close()
            raise item
        return item

    def close(self) -> None:
        """End the thread, whatever it has not produced."""
        self._stop.set()
        while True:  # a thread that waits for room sees that it must stop
            try:
                self._ready.get_nowait()
            except queue.Empty:
                break
        self._thread.join()

    def __del__(self) -> None:
        if not sys.is_finalizing():  # threads do not run any more, so none can be waited for
            self.close()


def prefetch(
    items: Iterator[Item], depth: int = 4, name: str = "solscope-inflate"
) -> Prefetched[Item]:
    """Yield `items`, produced by a thread: decompression and scanning then use a core each."""
    return Prefetched(items, depth, name)


def _produce(
    items: Iterator[Item],
    ready: queue.Queue[Item | BaseException | None],
    stop: threading.Event,
) -> None:
    def offer(item: Item | BaseException | None) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    try:
        for item in items:
            offer(item)
            if stop.is_set():
                break
        offer(None)
    except BaseException as error:  # noqa: BLE001 - handed to the consumer, which raises it
        offer(error)
    finally:
        # A generator that was not exhausted has files to close and a thread to end.
        if isinstance(items, Generator):
            items.close()
