"""Errors that are no fault of the code, each with one line for the user and an exit code.

Knows sysexits(3); knows nothing of what raised it.
"""

import difflib
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

EXIT_CHANGES = 1
"""Policies would change something, as with `kubectl diff`, or decide otherwise."""
EXIT_UNAVAILABLE = 69
EXIT_BLOCKED = 70
EXIT_NO_MEMORY = 71
EXIT_CONFIG = 78

EXIT_CODES = {
    0: "done, or ended by a signal that asked for it",
    EXIT_CHANGES: "policies would change something (`check --against`) or decided otherwise (`replay`)",
    2: "wrong arguments",
    EXIT_UNAVAILABLE: "something that is needed is not there, such as the API server, the journal or a running daemon",
    EXIT_BLOCKED: "the watchdog has ended `run`: the event loop did not turn for 12 s",
    EXIT_NO_MEMORY: "no memory is left within the limit of the process (`ulimit -v`, `LimitAS=`)",
    EXIT_CONFIG: "a mistake in a file that a person wrote; the line that was printed names it",
    130: "interrupted by Ctrl-C",
}
"""What every command's exit code means."""

NO_THREAD = "can't start new thread"
"""What Python's RuntimeError says when the system refuses another thread."""

LIMITS_OF_THREADS = "a limit of processes (pids of the container, TasksMax=, ulimit -u) or of memory is reached"

_LEAST = 3
"""Letters of an abbreviation, at least."""

UNREADABLE = (ValueError, RecursionError)
"""What decoders raise for text or bytes that they cannot read, the second where they are nested too deeply."""


class ElasticdError(Exception):
    """One line for a person, and the exit code of the process that prints it."""

    exit_code = 1


class ConfigError(ElasticdError):
    """A mistake in the configuration: `file: key: what must hold, what is`."""

    exit_code = EXIT_CONFIG

    def __init__(self, file: str, key: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (file, key, problem) if part))
        self.file, self.key, self.problem = file, key, problem
        self.each: tuple[ConfigError, ...] = (self,)
        """The mistakes that it tells of, a line each."""

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it comes back from another process."""
        return type(self), (self.file, self.key, self.problem)


class NotYetError(ConfigError):
    """A file that is named is not there, or not whole: whoever writes it may do so later."""

    exit_code = EXIT_UNAVAILABLE


class SeveralError(ConfigError):
    """Several mistakes at once, in the order in which they are found."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        super().__init__(errors[0].file, errors[0].key, errors[0].problem)
        self.each = tuple(errors)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.each,)

    def __str__(self) -> str:
        return "\n".join(map(str, self.each))


class Mistakes:
    """Collects mistakes, so that a person is told of all of them at once."""

    def __init__(self) -> None:
        self.found: list[ConfigError] = []

    def add(self, errors: Iterable[ConfigError]) -> None:
        """Add errors, each of them once."""
        for error in (mistake for several in errors for mistake in several.each):
            if str(error) not in map(str, self.found):
                self.found.append(error)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Add the ConfigError that the block raises, and go on."""
        try:
            yield
        except ConfigError as error:
            self.add([error])

    def raised(self) -> None:
        """Raise what was found, if anything was."""
        if self.found:
            raise self.found[0] if len(self.found) == 1 else SeveralError(self.found)


class UnavailableError(ElasticdError):
    """Something the command needs (a cluster, a journal, a port) is not there."""

    exit_code = EXIT_UNAVAILABLE


def is_interrupt(error: BaseException) -> bool:
    """Whether it is somebody's Ctrl-C at a command, and not a KeyboardInterrupt that a plugin raised by itself: where
    asyncio or the daemon looks after that signal, Python raises none."""
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def near(name: str, candidates: Iterable[str]) -> str:
    """Like `nearest`, for names such as shop/web: each part must be the other's but for one letter in five, or one."""
    parts = name.lower().split("/")
    split = {candidate: candidate.lower().split("/") for candidate in candidates}
    alike = [key for key, own in split.items() if len(own) == len(parts) and all(map(_is_slip, parts, own))]
    return nearest(name, alike)


def _is_slip(part: str, candidate: str) -> bool:
    if part == candidate:
        return True
    size = max(len(part), len(candidate))
    enough = max(0.6, (size - max(1, size // 5)) / size - 1e-9)
    matcher = difflib.SequenceMatcher(None, part, candidate)
    return matcher.real_quick_ratio() >= enough and matcher.quick_ratio() >= enough and matcher.ratio() >= enough


def nearest(word: str, candidates: Iterable[str]) -> str:
    """`, did you mean "x"?` for the known word most like this one, or else for one that is a part of it, or of which it
    is a part, as min is of min_replicas; an empty string if there is none."""
    words = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.6)
    if not matches:
        related = [key for key, candidate in words.items() if _is_part(word, candidate) or _is_part(candidate, word)]
        matches = difflib.get_close_matches(word.lower(), related, n=1, cutoff=0.0)
    return f', did you mean "{words[matches[0]]}"?' if matches else ""


def _is_part(short: str, name: str) -> bool:
    """Whether a name has all words of another, or begins with it: words are divided by _, - or a capital letter."""
    begins = len(short) >= _LEAST and name.lower().startswith(short.lower())
    return begins or (short != "" and _words_of(short) <= _words_of(name))


def _words_of(name: str) -> set[str]:
    return {part.lower() for part in re.split(r"[_-]|(?<=[a-z0-9])(?=[A-Z])", name)}
