"""Bytes of files: compressed, cut off, hostile or not there at all."""

from __future__ import annotations

import gzip
import lzma
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from solscope.errors import DamagedFileError, InputError, LimitError
from solscope.readers import source
from solscope.readers.base import Head, ReadOptions
from solscope.readers.source import (
    HEAD_BYTES,
    TruncatedStream,
    open_binary,
    prefetch,
    read_all,
    read_head,
    stream,
)

# Two texts that hardly compress, so that half of a file is about half of the text.
FIRST = b"".join(b"%d," % (index * 7919 % 100003) for index in range(15_000))
SECOND = FIRST[::-1]
PLENTY = 1 << 30

Pack = Callable[[bytes], bytes]


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(content)
    return path


def read(path: Path) -> bytes:
    return b"".join(stream(path, ReadOptions()))


def read_until_cut(path: Path) -> tuple[bytes, str]:
    """What a file that is cut off yields, and the reason it then gives."""
    pieces: list[bytes] = []
    with pytest.raises(TruncatedStream) as caught:
        pieces.extend(stream(path, ReadOptions()))  # keeps what came before the error
    return b"".join(pieces), str(caught.value)


WHOLE = {
    "plain": FIRST + SECOND,
    "gzip": gzip.compress(FIRST + SECOND),
    "gzip in two members": gzip.compress(FIRST) + gzip.compress(SECOND),
    "gzip with an empty member": gzip.compress(FIRST + SECOND) + gzip.compress(b""),
    "gzip with zero padding": gzip.compress(FIRST + SECOND) + bytes(1000),
    "gzip with padding between members": gzip.compress(FIRST) + bytes(99) + gzip.compress(SECOND),
    "gzip with garbage behind it": gzip.compress(FIRST + SECOND) + b"garbage",
    "zstd": zstd(FIRST + SECOND),
    "zstd in two frames": zstd(FIRST) + zstd(SECOND),
    "xz": lzma.compress(FIRST + SECOND),
    "xz in two streams, padded": lzma.compress(FIRST) + bytes(8) + lzma.compress(SECOND) + bytes(4),
}


@pytest.mark.parametrize("form", WHOLE)
def test_whole_files(tmp_path: Path, form: str) -> None:
    assert read(write(tmp_path, WHOLE[form])) == FIRST + SECOND


@pytest.mark.parametrize("form", WHOLE)
def test_their_heads(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, WHOLE[form])
    assert read_head(path) == Head(path, (FIRST + SECOND)[:HEAD_BYTES])


def test_head_of_a_zstd_file_that_does_not_compress(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(400_000)
    path = write(tmp_path, zstd(noise))
    assert read_head(path) == Head(path, noise[:HEAD_BYTES])


@pytest.mark.parametrize(
    "form",
    ["gzip in two members", "gzip with padding between members", "xz in two streams, padded"],
)
def test_members_that_straddle_blocks(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "CHUNK_BYTES", 8 * 7)  # blocks of seven bytes
    assert read(write(tmp_path, WHOLE[form])) == FIRST + SECOND


def test_without_zlib_ng(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    monkeypatch.setattr(source, "zlib_module", lambda: zlib)
    path = write(tmp_path, WHOLE["gzip in two members"])
    assert read(path) == FIRST + SECOND


# Cut off and damaged


def test_truncated_gzip_yields_what_it_has(tmp_path: Path) -> None:
    packed = gzip.compress(FIRST)
    got, reason = read_until_cut(write(tmp_path, packed[: len(packed) // 2]))
    assert FIRST.startswith(got)
    assert len(got) > len(FIRST) // 3
    assert reason == "the gzip stream has no end mark"


def test_gzip_that_lacks_only_its_end_mark(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(FIRST)[:-1])
    assert read_until_cut(path) == (FIRST, "the gzip stream has no end mark")


def test_second_member_cut_off(tmp_path: Path) -> None:
    got, reason = read_until_cut(write(tmp_path, gzip.compress(FIRST) + gzip.compress(SECOND)[:9]))
    assert got == FIRST
    assert reason == "the gzip stream has no end mark"


def test_truncated_zstd_yields_what_it_has(tmp_path: Path) -> None:
    packed = zstd(FIRST * 20)
    got, reason = read_until_cut(write(tmp_path, packed[:-4]))
    assert (FIRST * 20).startswith(got)
    assert reason == "the zstd stream has no end mark"


def test_damaged_second_zstd_frame(tmp_path: Path) -> None:
    got, reason = read_until_cut(write(tmp_path, zstd(FIRST) + b"garbage"))
    assert got == FIRST
    assert reason.startswith("damaged zstd data (")


def test_truncated_xz_yields_what_it_has(tmp_path: Path) -> None:
    noise = random.Random(2).randbytes(400_000)
    packed = lzma.compress(noise)
    got, reason = read_until_cut(write(tmp_path, packed[: len(packed) // 2]))
    assert noise.startswith(got)
    assert len(got) > len(noise) // 3
    assert reason == "the xz stream has no end mark"


def test_damaged_second_xz_stream(tmp_path: Path) -> None:
    got, reason = read_until_cut(write(tmp_path, lzma.compress(FIRST) + b"garbage" * 9))
    assert got == FIRST
    assert reason.startswith("damaged xz data (")


def test_xz_that_needs_more_memory_than_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_XZ_MEMORY", 1 << 16)
    path = write(tmp_path, lzma.compress(FIRST))
    with pytest.raises(
        LimitError, match=r"file: needs more than 0 MiB to decompress; do that first"
    ):
        read(path)


def test_xz_of_zeros_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, lzma.compress(bytes(70 << 20), preset=0))
    with pytest.raises(LimitError, match="grows more than"):
        list(stream(path, ReadOptions(max_expansion=100)))


def test_gzip_damaged_from_the_start(tmp_path: Path) -> None:
    path = write(tmp_path, b"\x1f\x8b" + bytes(50))
    with pytest.raises(DamagedFileError, match=r"file: damaged gzip data \("):
        read(path)
    with pytest.raises(DamagedFileError, match=r"file: damaged compressed file \("):
        read_head(path)


def test_gzip_damaged_in_the_middle(tmp_path: Path) -> None:
    good = gzip.compress(FIRST)
    damaged = good + gzip.compress(SECOND)[:10] + b"\xff" * 100
    got, reason = read_until_cut(write(tmp_path, damaged))
    assert got == FIRST
    assert reason == f"damaged gzip data after {len(FIRST)} bytes"


def test_head_of_a_truncated_file(tmp_path: Path) -> None:
    head = read_head(write(tmp_path, gzip.compress(FIRST)[:-1]))
    assert head.data == FIRST[:HEAD_BYTES]


@pytest.mark.parametrize(
    "content", [gzip.compress(FIRST)[:12], zstd(FIRST)[:6]], ids=["gzip", "zstd"]
)
def test_head_of_a_file_cut_before_its_first_byte(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DamagedFileError, match="damaged compressed file"):
        read_head(write(tmp_path, content))


def test_empty_file(tmp_path: Path) -> None:
    path = write(tmp_path, b"")
    assert read(path) == b""
    with pytest.raises(InputError, match=r"file is empty$"):
        read_head(path)


# Limits


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_bomb_is_refused(tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FREE_BYTES", 1 << 20)
    path = write(tmp_path, pack(bytes(4 << 20)))
    with pytest.raises(LimitError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: grows more than 200-fold when decompressed (")
    assert str(caught.value).endswith("if you trust it, pass a larger --max-expansion")


def test_a_larger_factor_lets_it_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FREE_BYTES", 1 << 20)
    path = write(tmp_path, gzip.compress(bytes(4 << 20)))
    pieces = list(stream(path, ReadOptions(max_expansion=2000)))
    assert sum(map(len, pieces)) == 4 << 20


def test_a_small_file_may_grow_as_it_likes(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(bytes(4 << 20)))
    assert len(read(path)) == 4 << 20


def test_pieces_of_a_gzip_bomb_are_small(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(bytes(8 << 20)))
    sizes = [len(piece) for piece in stream(path, ReadOptions())]
    assert sum(sizes) == 8 << 20
    assert max(sizes) == 1 << 20


def test_read_all(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(FIRST))
    assert read_all(path, ReadOptions(), len(FIRST)) == FIRST


def test_read_all_refuses_what_is_larger_than_its_limit(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(bytes((3 << 20) + 1)))
    with pytest.raises(LimitError, match=r"file: larger than 3 MiB for this format$"):
        read_all(path, ReadOptions(), 3 << 20)


def test_read_all_of_a_truncated_file(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(FIRST)[:-1])
    with pytest.raises(DamagedFileError, match="the compressed file is truncated"):
        read_all(path, ReadOptions(), PLENTY)


def test_progress_counts_bytes_as_stored(tmp_path: Path) -> None:
    packed = gzip.compress(FIRST)
    seen: list[tuple[int, int]] = []
    options = ReadOptions(progress=lambda done, total: seen.append((done, total)))
    list(stream(write(tmp_path, packed), options))
    assert seen == [(len(packed), len(packed))]


# Not there, or not ours to read


def openers(path: Path) -> dict[str, Callable[[], object]]:
    return {
        "open_binary": lambda: open_binary(path),
        "read_head": lambda: read_head(path),
        "stream": lambda: read(path),
        "read_all": lambda: read_all(path, ReadOptions(), PLENTY),
    }


def refusal(path: Path, opener: str) -> str:
    with pytest.raises(InputError) as caught:
        openers(path)[opener]()
    return str(caught.value)


EVERY_OPENER = pytest.mark.parametrize("opener", openers(Path()))


@EVERY_OPENER
def test_missing_file(tmp_path: Path, opener: str) -> None:
    assert refusal(tmp_path / "absent", opener) == f"{tmp_path / 'absent'}: no such file"


@EVERY_OPENER
def test_folder(tmp_path: Path, opener: str) -> None:
    assert refusal(tmp_path, opener) == f"{tmp_path} is a folder, not a profile"


@EVERY_OPENER
def test_permission_denied(tmp_path: Path, opener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: Path, *_arguments: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    path = write(tmp_path, FIRST)
    monkeypatch.setattr(Path, "open", denied)
    assert refusal(path, opener) == f"{path}: cannot be opened (Permission denied)"


# prefetch


def inflating() -> list[threading.Thread]:
    """Threads of `prefetch` that still run."""
    return [thread for thread in threading.enumerate() if thread.name == "solscope-inflate"]


def test_prefetch_keeps_the_pieces_in_order() -> None:
    pieces = [bytes([index]) for index in range(100)]
    assert list(prefetch(iter(pieces))) == pieces
    assert inflating() == []


def test_prefetch_of_nothing() -> None:
    assert list(prefetch(iter([]))) == []


def test_prefetch_passes_an_exception_on_after_the_pieces_before_it() -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise TruncatedStream("cut")

    pieces = prefetch(broken())
    assert next(pieces) == b"a"
    with pytest.raises(TruncatedStream, match=r"^cut$"):
        next(pieces)
    assert inflating() == []


def test_prefetch_ends_its_thread_when_the_consumer_stops_early() -> None:
    produced: list[None] = []

    def endless() -> Iterator[bytes]:
        while True:
            produced.append(None)
            yield b"a"

    pieces = prefetch(endless(), depth=2)
    assert next(pieces) == b"a"
    pieces.close()
    assert inflating() == []
    assert len(produced) <= 5  # one taken, two in the queue, one waiting, one on its way


def test_prefetch_ends_its_thread_when_the_consumer_fails() -> None:
    def consume() -> None:
        for piece in prefetch(iter([b"a"] * 100), depth=2):
            raise KeyError(piece)

    with pytest.raises(KeyError):
        consume()
    assert inflating() == []
