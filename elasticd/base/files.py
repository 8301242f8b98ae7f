"""Files that are written whole or not at all, or only opened where they are files, and how many may be open."""

import errno
import os
import resource
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

KERNEL = ("/proc/", "/sys/")
"""Where the kernel's own files are: regular ones by their mode, though a read may wait for ever, or do something."""

_KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}


def share_of_files(parts: int, least: int, most: int) -> int:
    """One of so many equal parts of the files that this process may open, sockets included, within these bounds."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else max(least, min(most, limit // parts))


def kind_of(mode: int) -> str:
    """What a mode is of, if of no regular file; empty: of one."""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "a device")


def regular(path: str, flags: int) -> int:
    """An opener for `open`: never follows a link, never waits, and raises OSError for what is no regular file."""
    try:
        return _opened(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise OSError(error.errno, f"it is {kind_of(os.lstat(path).st_mode) or 'changing'}", path) from None


def linked(path: str, flags: int) -> int:
    """An opener for `open` that follows links, as a mounted ConfigMap or Secret has, and else does as `regular`."""
    return _opened(path, flags)


def _opened(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    own = "a file of the kernel" if str(Path(path).resolve()).startswith(KERNEL) else ""
    if kind := kind_of(os.fstat(descriptor).st_mode) or own:
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"it is {kind}", path)
    return descriptor


def content_of(path: Path, most: int) -> bytes:
    """The first bytes of a person's file, at most so many. Never waits. Raises OSError for what is no regular file, or
    has nothing to read yet."""
    with open(path, "rb", opener=linked) as file:
        content: bytes | None = file.read(most)
    if content is None:
        raise OSError(errno.EAGAIN, "it has nothing to read yet", str(path))
    return content


@contextmanager
def replacing(path: Path, mode: str, *, encoding: str | None = None, newline: str | None = None) -> Iterator[IO[Any]]:
    """A file that takes its name only once all of it is on the disk; an incomplete one is deleted. Raises OSError."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        with temporary.open(mode.replace("w", "x"), encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()
