"""Lines of a file to which long work adds as it goes on, so that it can be interrupted.

Knows whole lines; knows nothing of what stands in them.
"""

from collections.abc import Iterable
from pathlib import Path

from elasticd.base.errors import UnavailableError


class KeptLines:
    """The whole lines of a file, oldest first, and those that are added. Without a file nothing is kept.

    A line that was being written when the work ended is lost, and overwritten by the next one."""

    def __init__(self, path: Path | None) -> None:
        """Raises UnavailableError for a file that cannot be read."""
        self._path = path
        text = b""
        if path is not None:
            try:
                text = path.read_bytes() if path.exists() else b""
            except OSError as error:
                raise _refused(path, "readable", error) from None
        self._length = text.rfind(b"\n") + 1
        self.lines = text[: self._length].splitlines()

    def add(self, lines: Iterable[bytes]) -> None:
        """Write lines, without their ends, after all others. Raises UnavailableError."""
        if self._path is None:
            return
        added = b"".join(line + b"\n" for line in lines)
        try:
            with self._path.open("r+b" if self._path.exists() else "wb") as file:
                file.truncate(self._length)
                file.seek(self._length)
                file.write(added)
        except OSError as error:
            raise _refused(self._path, "writable", error) from None
        self._length += len(added)


def _refused(path: Path, what: str, error: OSError) -> UnavailableError:
    return UnavailableError(f"{path}: must be {what}, is not: {error.strerror}")
