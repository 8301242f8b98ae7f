"""A plugin's call that blocks, and a daemon that waits for it no longer than it must."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.kit.daemons import PATIENCE

_ENTERED, _GATE = threading.Event(), threading.Event()
"""What blocks says so, and waits for the gate."""


def block() -> None:
    """Block until the test has ended."""
    _ENTERED.set()
    _GATE.wait()


@contextmanager
def waiting_until_blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody waits for a thread any longer than until it blocks."""
    _ENTERED.clear()
    _GATE.clear()
    monkeypatch.setattr(threading.Thread, "join", lambda *_: _ENTERED.wait(PATIENCE))
    yield
    _GATE.set()
