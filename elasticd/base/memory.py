"""Whether memory is left within the limits of the process (`ulimit -v` and `-d`, LimitAS=, LimitDATA=).

Knows mappings and exceptions; imports nothing that takes memory.
"""

import mmap

from elasticd.base.errors import ElasticdError

THREAD = 16 << 20
"""Bytes that must be free: a thread's stack takes 8 MiB, without which `Thread.start` may wait for ever."""


def mapped(size: int) -> mmap.mmap | None:
    """So many bytes of addresses, which take no memory while they are not written to; None: there are none."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, MemoryError):
        return None


def has_memory(size: int = THREAD) -> bool:
    """Whether so many bytes are free."""
    mapping = mapped(size)
    if mapping is not None:
        mapping.close()
    return mapping is not None


def is_shortage(error: BaseException) -> bool:
    """Whether it is an error of that kind, or may have come of one: no thread can be started, and no file mapped,
    either."""
    return lacks_memory(error) or (
        isinstance(error, Exception) and not isinstance(error, ElasticdError) and not has_memory()
    )


def lacks_memory(error: BaseException | None) -> bool:
    """Whether this is a MemoryError, or was raised while one was dealt with."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(lacks_memory, error.exceptions))
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
