"""What goes wrong through no fault of the code, each with the one line a person needs and an exit code.

Knows sysexits(3); knows nothing of what raised it.
"""

import difflib
from collections.abc import Iterable

EXIT_UNAVAILABLE = 69
EXIT_CONFIG = 78


class ElasticdError(Exception):
    """One line for a person, and the exit code of the process that prints it."""

    exit_code = 1


class ConfigError(ElasticdError):
    """Something a person wrote is wrong: `file: key: what must hold, what is`."""

    exit_code = EXIT_CONFIG

    def __init__(self, file: str, key: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (file, key, problem) if part))
        self.file, self.key, self.problem = file, key, problem


class UnavailableError(ElasticdError):
    """Something the command needs (a cluster, a journal, a port) is not there."""

    exit_code = EXIT_UNAVAILABLE


def nearest(word: str, known: Iterable[str]) -> str:
    """`, did you mean "x"?` for the known word most like this one, or an empty string."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f', did you mean "{found[0]}"?' if found else ""
