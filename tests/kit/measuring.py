"""What measurements have in common: the machine, and one core of it."""

import os
import platform


def machine() -> str:
    """What was measured on, for the first line of what is printed."""
    return f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} x {platform.machine()}"


def alone() -> frozenset[int]:
    """Keep this process on one core, which it names: it is measured as if it had no other, and does not pay for being
    moved from one to another. The last one, as the first serves the devices."""
    core = frozenset({max(os.sched_getaffinity(0))})
    os.sched_setaffinity(0, core)
    return core
