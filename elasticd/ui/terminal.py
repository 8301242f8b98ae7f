"""Where commands print: a terminal, or a pipe.

Knows rich; knows nothing of what is printed.
"""

import re
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

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

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, in a pipe without the spaces that fill up the rows of a table."""
        if self.is_terminal or all(isinstance(item, str | Text) for item in objects):
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))

    def on_broken_pipe(self) -> None:
        """Leave it to `main`."""
        raise BrokenPipeError
