"""Where commands print: a terminal, or a pipe.

Knows rich; knows nothing of what is printed.
"""

import sys

from rich.console import Console

PIPE = 100_000
"""Characters: no row is longer."""


class Terminal(Console):
    """A terminal, or a pipe, where lines are as long as they are and have no colours. Square brackets and colons are
    what they are."""

    def __init__(self) -> None:
        if sys.stdout.isatty():
            super().__init__(highlight=False, markup=False, emoji=False)
        else:
            super().__init__(highlight=False, markup=False, emoji=False, width=PIPE, color_system=None)

    def on_broken_pipe(self) -> None:
        """Leave it to `main`."""
        raise BrokenPipeError
