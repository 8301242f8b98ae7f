"""Runs a credential plugin that a kubeconfig names: it gets so much time and no more, and may print so much. Processes
that it began itself are not ended.

Knows processes and pipes; knows nothing of what a plugin prints.
"""

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from elasticd.base.errors import UnavailableError
from elasticd.base.text import one_line

WITHIN = 60.0
"""Seconds that a plugin may take: some ask a server far away, or wait for their own lock."""

MOST = 1 << 20
"""Bytes that it may print, on both streams together; a credential has some thousand."""

_PIECE = 1 << 16


def printed(
    arguments: Sequence[str], environment: Mapping[str, str], within: float = WITHIN, most: int = MOST
) -> bytes:
    """What it prints on stdout; blocks until it has ended. Raises UnavailableError where it prints too much, fails, or
    takes too long, as it may do better when it is asked again, and OSError where it cannot be started."""
    end, name = time.monotonic() + within, Path(arguments[0]).name
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, env=environment, stdout=pipe, stderr=pipe) as process:  # noqa: S603  # what the kubeconfig names
        try:
            output, errors = _read(process, end, most)
            code = process.wait(_left(end))
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"exec: {name} must end within {within:g} s, does not") from None
        except ValueError:
            raise UnavailableError(f"exec: {name} must print at most {most} bytes, prints more") from None
        finally:
            process.kill()
    if code != 0:
        said = errors.decode(errors="replace")
        raise UnavailableError(one_line(f"exec: {name} must succeed, ends with {code}: {said}"))
    return output


def _read(process: "subprocess.Popen[bytes]", end: float, most: int) -> tuple[bytes, bytes]:
    """All that it prints on stdout and stderr, read as it comes. Raises TimeoutExpired, or ValueError for too much."""
    streams = (process.stdout, process.stderr)
    pieces: dict[object, bytearray] = {stream: bytearray() for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in filter(None, streams):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            if not (ready := selector.select(_left(end))):
                raise subprocess.TimeoutExpired(process.args, 0.0)
            for key, _ in ready:
                if not (piece := os.read(key.fd, _PIECE)):
                    selector.unregister(key.fileobj)
                pieces[key.fileobj] += piece
            if sum(map(len, pieces.values())) > most:
                raise ValueError
    return bytes(pieces[process.stdout]), bytes(pieces[process.stderr])


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())
