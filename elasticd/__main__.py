"""`python -m elasticd` is the command elasticd."""

import sys

from elasticd.cli import main

if __name__ == "__main__":
    sys.exit(main())
