"""The command elasticd, also as `python -m elasticd`.

Knows what must be done before anything else is imported, which takes a second or more on a slow machine.
"""

import signal
import sys


def main() -> int:
    """Run the command line; 130 after Ctrl-C, from the first line on."""
    if sys.argv[1:2] == ["run"]:
        # It asks for a reload; until the daemon has read its policies there is nothing to reload, and it would end us.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        from elasticd.cli import main as command  # noqa: PLC0415

        return command()
    except KeyboardInterrupt:  # during the imports
        return 130


if __name__ == "__main__":
    sys.exit(main())
