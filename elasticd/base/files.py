"""Files that are written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


@contextmanager
def replacing(path: Path, mode: str, *, encoding: str | None = None, newline: str | None = None) -> Iterator[IO[Any]]:
    """A file that takes its name only once all of it is on the disk; an incomplete one is deleted. Raises OSError."""
    temporary: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            mode, encoding=encoding, newline=newline, dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        temporary = None
    finally:
        if temporary:
            with suppress(OSError):
                temporary.unlink()
