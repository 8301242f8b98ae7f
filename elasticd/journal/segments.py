"""The journal's files: numbered segments of lines. The newest is plain text, older ones are compressed.

A compressed segment is a file that gzip reads, made of members of whole lines. Each member is read without the others,
so that a damaged one costs its own lines alone. Knows nothing of what a line says.
"""

import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from elasticd.base.files import kind_of, regular

BLOCK = 256 << 10
"""Bytes of lines that are compressed together, at least: what a flipped bit costs."""

PIECE = 16 << 10
"""Bytes of lines that are read at once. Where whole blocks were, each segment left 0.4 MB of the heap in fragments, for
the daemon's life (tests/bench/soak.py)."""

FASTEST = 1
"""The level of compression: the slowest takes three times as long for a tenth less (docs/decisions/006)."""

_GZIP = 16 + zlib.MAX_WBITS
_MEMBER = re.compile(re.escape(b"\x1f\x8b\x08\x00\x00\x00\x00\x00"))
"""The beginning of a member as zlib writes it: gzip's magic number, deflate, no flags, no time."""

_NAME = re.compile(r"journal-(\d+)\.jsonl(\.gz)?", re.ASCII)
_UNFINISHED = "journal-*.jsonl.gz.tmp"


def number_of(path: Path) -> int:
    """A segment's number, 0 for any other file."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def files(folder: Path) -> list[Path]:
    """The journal's files, oldest first; of a segment that has two, the compressed one comes last."""
    return [path for path, kind in _named(folder) if not kind]


def strangers(folder: Path) -> list[tuple[Path, str]]:
    """What is named as the journal's files are, and is none: links, FIFOs, folders; and which of these each is."""
    return [(path, kind) for path, kind in _named(folder) if kind]


def _named(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(filter(number_of, folder.iterdir()), key=lambda path: (number_of(path), path.name)):
        with suppress(FileNotFoundError):  # dropped meanwhile
            yield path, kind_of(path.lstat().st_mode)


def segments(folder: Path) -> list[Path]:
    """One file of each segment, oldest first: the compressed one, which is complete, where both are there."""
    return list({number_of(path): path for path in files(folder)}.values())


def next_segment(folder: Path, last: int = 0) -> Path:
    """The segment after the last one, which may have been removed from the folder."""
    return folder / f"journal-{max([last, *map(number_of, folder.iterdir())]) + 1:08d}.jsonl"


def newest(folder: Path) -> Path:
    """The plain segment that is written on; a new one where the last is compressed, or there is none."""
    paths = segments(folder)
    return paths[-1] if paths and paths[-1].suffix == ".jsonl" else next_segment(folder)


def sizes(folder: Path) -> list[tuple[Path, int]]:
    """The journal's files and their bytes on disk, oldest first; without those that have just been removed."""
    found = []
    for path in files(folder):
        with suppress(FileNotFoundError):
            found.append((path, path.lstat().st_size))
    return found


def remove_unfinished(folder: Path) -> None:
    """Remove what a daemon that was killed left behind while it compressed a segment."""
    for path in folder.glob(_UNFINISHED):
        with suppress(OSError):
            path.unlink()


def plain(folder: Path, before: Path) -> list[Path]:
    """The plain segments before this one: they are to be compressed."""
    return [path for path in files(folder) if path.suffix == ".jsonl" and number_of(path) < number_of(before)]


def compress(path: Path) -> None:
    """Compress a segment. The plain file stays until the compressed one is on disk. Raises OSError."""
    compressed = _compressed(path)
    unfinished = compressed.with_suffix(".gz.tmp")
    try:
        if not compressed.exists():
            with open(path, "rb", opener=regular) as source, open(unfinished, "wb", opener=regular) as target:
                target.writelines(_members(source))
                target.flush()
                os.fsync(target.fileno())
            unfinished.rename(compressed)
        path.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _members(source: BinaryIO) -> Iterator[bytes]:
    size = min(PIECE, BLOCK)
    while piece := source.read(size):
        packer = zlib.compressobj(FASTEST, wbits=_GZIP)
        yield packer.compress(piece)
        for _ in range(BLOCK // size - 1):
            yield packer.compress(source.read(size))
        yield packer.compress(source.readline()) + packer.flush()


def _compressed(path: Path) -> Path:
    return path.with_suffix(".jsonl.gz")


class DamagedBlock(NamedTuple):
    """A member of a compressed segment that cannot be read: where it begins in the file, how many bytes of lines it had
    by its own last word, and what is wrong with it."""

    offset: int
    size: int
    why: str


def open_lines(path: Path) -> BinaryIO:
    """Open a segment, also one that has been compressed since it was listed."""
    try:
        return open(path, "rb", opener=regular)
    except FileNotFoundError:
        if path.suffix == ".gz":
            raise
        return open(_compressed(path), "rb", opener=regular)


def unpack(file: BinaryIO) -> Iterator[BinaryIO | DamagedBlock]:
    """The blocks of a compressed segment. What no member begins is damaged up to where the next one begins."""
    data = file.read()
    begins = sorted({0, *(match.start() for match in _MEMBER.finditer(data))})
    for begin, end in zip(begins, [*begins[1:], len(data)], strict=True):
        yield from _unpack(data[begin:end], begin)


def _unpack(member: bytes, offset: int) -> Iterator[BinaryIO | DamagedBlock]:
    unpacker = zlib.decompressobj(_GZIP)
    block, rest, why = b"", member, "incomplete data"
    try:
        block = unpacker.decompress(member)
    except zlib.error as error:
        why = str(error).rpartition(": ")[2]
    if unpacker.eof:
        yield io.BytesIO(block)
        rest, why = unpacker.unused_data, "incorrect header"
    if rest:
        yield DamagedBlock(offset + len(member) - len(rest), int.from_bytes(rest[-4:], "little"), why)
