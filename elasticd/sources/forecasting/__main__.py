"""The process that fits forecasts: questions on its standard input, replies on its standard output, in their order.

Knows pipes. It runs at low priority, and is the first to be killed when memory is short.
"""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from elasticd.base.text import raised
from elasticd.sources.forecasting.fit import answer
from elasticd.sources.forecasting.request import HEAD_BYTES, Reply, frame, length, question

NICE = 10
MEMORY = 4 << 30
"""Bytes of address space: some ten times what two weeks of minutes need."""


def humble() -> None:
    """Lower this process's priority and limit its memory, as far as its unit allows that."""
    with suppress(OSError):
        os.nice(NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def serve(questions: BinaryIO, replies: BinaryIO) -> None:
    """Answer until there are no more questions. A question that fails affects no other."""
    while len(head := questions.read(HEAD_BYTES)) == HEAD_BYTES:
        body = questions.read(length(head))
        try:
            reply = answer(question(body))
        except Exception as error:
            reply = Reply(problem=f"the fit failed: {raised(error)}")
        replies.write(frame(reply))
        replies.flush()


if __name__ == "__main__":
    humble()
    serve(sys.stdin.buffer, sys.stdout.buffer)
