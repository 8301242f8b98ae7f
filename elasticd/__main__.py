"""The command elasticd, also as `python -m elasticd`.

Knows what must be done before anything else is imported, which takes a second or more on a slow machine, and that the
daemon ends.
"""

import os
import signal
import sys

from elasticd.base.errors import EXIT_NO_MEMORY
from elasticd.base.memory import has_memory, is_shortage

ALL = 112 << 20
"""Bytes that the imports take, about: OpenBLAS ends a process by itself where it has none, with code 1."""


def main() -> int:
    """Run the command line; 130 after Ctrl-C, and 71 without memory, from the first line on."""
    if sys.argv[1:2] == ["run"]:
        # It asks for a reload; until the daemon has read its policies there is nothing to reload, and it would end us.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # One thread: where none may be started, OpenBLAS ends the process.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if not has_memory(ALL):
            raise MemoryError
        from elasticd.cli import main as command  # noqa: PLC0415
        from elasticd.telemetry.watchdog import end_in_time  # noqa: PLC0415

        code = command()
        if sys.argv[1:2] == ["run"]:
            end_in_time(code)
        return code
    except KeyboardInterrupt:  # during the imports
        return 130
    except Exception as error:
        if not is_shortage(error):
            raise
        limits = "ulimit -v or -d, LimitAS=, LimitDATA="
        sys.stderr.write(f"memory: must be left, is not: a limit of the process ({limits}) is reached\n")
        return EXIT_NO_MEMORY


if __name__ == "__main__":
    sys.exit(main())
