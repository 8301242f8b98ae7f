"""Plays runs on a Dask cluster that is there already, in the place of processes of one's own.

Knows how a scheduler is reached and how its failures are worded; knows nothing of what is played. Dask comes with
elasticd[fleet]. It is imported when it is used: it takes half a second and 16 MB.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from elasticd.base.errors import ConfigError, ElasticdError, UnavailableError
from elasticd.base.text import one_line

SECONDS = 5
"""Until a scheduler that does not answer is given up."""

_LARGE = "1GiB"
"""A run brings its load with it. Dask warns of 10 MB; a week of single pods has more."""


class Pending(Protocol):
    """What a task will come to."""

    def result(self, timeout: float | None = None) -> Any:
        """Wait for it. Raises what the task raised, and TimeoutError after so many seconds."""

    def done(self) -> bool:
        """Whether it has ended."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> Any:
        """Call this with the future when it is done, perhaps in another thread."""


Submit = Callable[..., Pending]
"""Begins a function with its arguments somewhere else, as the method of an executor does."""


def note(topic: str, index: int, seconds: float) -> None:
    """On a worker: note under the topic of a fleet how many seconds of a task have passed. What gets lost is no loss:
    more follows, and the end is known otherwise."""
    with suppress(Exception):
        importlib.import_module("distributed").get_worker().log_event(topic, (index, seconds))


@contextmanager
def fleet(address: str, tasks: int) -> Iterator[tuple[Submit, str, Sequence[float]]]:
    """Where the workers of a scheduler do so many tasks, each again if its worker dies; under which topic they `note`
    how far they are; and how many seconds of each have passed. Raises ConfigError for what is no address,
    UnavailableError where there is no scheduler, or where a task could not be done."""
    try:
        dask, distributed = importlib.import_module("dask"), importlib.import_module("distributed")
    except ImportError:
        problem = "needs Dask, which is not installed: pip install elasticd[fleet]"
        raise UnavailableError(f"--dask: {problem}") from None
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what is wrong is raised
    _reach(distributed, address)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE}):
        client = distributed.Client(address, timeout=SECONDS, set_as_default=False)
        with client:
            try:
                _check_versions(client)
                topic, passed = f"elasticd-{client.id}", [0.0] * tasks
                client.subscribe_topic(topic, partial(_hear, passed))
                yield partial(client.submit, pure=False), topic, passed
            except ElasticdError:
                raise
            except Exception as error:  # of a worker, or of the way to it: whatever could not be unpacked or reached
                problem = f"{type(error).__name__}: {one_line(str(error))}"
                raise UnavailableError(f"--dask: a run could not be played: {problem}") from None


def _hear(passed: list[float], event: tuple[float, tuple[int, float]]) -> None:
    """Take in how far a task is, in a thread of the client's. One that is played again begins anew."""
    index, seconds = event[1]
    passed[index] = max(passed[index], seconds)


def _reach(distributed: Any, address: str) -> None:
    """Refuse what is no scheduler's address. The client itself would wait for ever where nobody answers."""

    async def connect() -> None:
        known = distributed.security.Security().get_connection_args("client")
        comm = distributed.comm.connect(address, timeout=SECONDS, **known)
        (await asyncio.wait_for(comm, SECONDS + 1)).abort()

    try:
        asyncio.run(connect())
    except ValueError as error:
        raise ConfigError("", "--dask", f"must be as tcp://HOST:8786, is not: {one_line(str(error))}") from None
    except Exception as error:
        reason = one_line(str(error)) or f"no answer within {SECONDS:g} s"
        raise UnavailableError(f"--dask: no scheduler at {address}: {reason}") from None


def _check_versions(client: Any) -> None:
    """Refuse a scheduler or workers without elasticd, where tasks would wait for ever, or with another version."""
    ours = version("elasticd")
    versions = client.run(version, "elasticd", on_error="return")
    try:
        versions["the scheduler"] = client.run_on_scheduler(version, "elasticd")
    except PackageNotFoundError as error:
        versions["the scheduler"] = error
    for place, theirs in versions.items():
        if theirs != ours:
            has = "none" if isinstance(theirs, Exception) else theirs
            raise UnavailableError(f"--dask: {place} must have elasticd {ours}, has {has}")
