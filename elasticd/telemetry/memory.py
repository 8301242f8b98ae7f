"""How near the daemon is to the limit of its memory, and what it has most of.

Knows the files of control groups and of processes, and containers of Python; knows nothing of what they hold. It counts
entries, which takes milliseconds: what they weigh would take seconds to find out, just when there is no memory for it.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import NamedTuple

NEAR, EASED = 0.9, 0.8
"""The share of the limit from which the daemon is near it, and that below which it is not any more."""

_NO_LIMIT = 1 << 60
"""Bytes from which a limit is none, as version 1 of control groups writes it."""

_CONTAINERS = frozenset({dict, list, set, deque, defaultdict, OrderedDict, Counter})
"""Types of containers whose length can be asked without running a stranger's code."""

_Cached = type(lru_cache(int))


class Memory(NamedTuple):
    """Bytes in use that cannot be had back, and at most."""

    used: int
    limit: int

    @property
    def share(self) -> float:
        return self.used / self.limit


class _Files(NamedTuple):
    """Where a version of control groups has what."""

    folder: str
    limit: str
    used: str
    reclaimable: str


_VERSIONS = {
    "": _Files("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": _Files("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By the name of the controller in /proc/self/cgroup."""


def memory(root: Path = Path("/")) -> Memory | None:
    """The memory of the control group of this process, or of the one around it, as the kubelet counts it, or its own
    addresses or data: what is nearest to its limit. None without a limit."""
    limited = [level for level in (*_levels(root), *_own(root)) if level.limit < _NO_LIMIT]
    return max(limited, key=lambda level: level.share, default=None)


def _levels(root: Path) -> Iterator[Memory]:
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for name, files in _VERSIONS.items():
            if name in controllers.split(","):
                group = PurePosixPath(path.lstrip("/"))
                for folder in (group, *group.parents):
                    yield from _level(root / files.folder / folder, files)


def _level(folder: Path, files: _Files) -> Iterator[Memory]:
    limit, used = _read(folder / files.limit).strip(), _read(folder / files.used).strip()
    stats = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
    reclaimable = stats.get(files.reclaimable, "0")
    if limit.isdigit() and int(limit) and used.isdigit() and reclaimable.isdigit():
        yield Memory(max(0, int(used) - int(reclaimable)), int(limit))


def _own(root: Path) -> Iterator[Memory]:
    """What is limited by `ulimit -v` and `-d`, beyond which Python raises MemoryError."""
    limits = _read(root / "proc/self/limits").splitlines()
    sizes = dict(line.split(":", 1) for line in _read(root / "proc/self/status").splitlines() if ":" in line)
    for name, size in (("Max address space", "VmSize"), ("Max data size", "VmData")):
        limit = next((line.removeprefix(name).split()[0] for line in limits if line.startswith(name)), "")
        used = sizes.get(size, "").removesuffix("kB").strip()
        if limit.isdigit() and int(limit) and used.isdigit():
            yield Memory(int(used) << 10, int(limit))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


class Nearness:
    """Whether the daemon is near its limit, which it is until it is well below."""

    def __init__(self) -> None:
        self.near = False

    def changed(self, share: float) -> bool:
        """Take in a share of the limit; whether `near` has changed by it."""
        before, self.near = self.near, share >= (EASED if self.near else NEAR)
        return self.near != before


def entries(packages: Collection[str]) -> Iterator[tuple[int, str]]:
    """The number of entries of each container and cache that the modules of these packages have as a global, with its
    name: a plugin's strategies are frozen, so what grows in a plugin is there, or in its sources."""
    counted: set[int] = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages and isinstance(module, ModuleType):
            for variable, value in list(vars(module).items()):
                kind = type(value)
                if variable.startswith("__") or id(value) in counted:
                    continue
                if kind in _CONTAINERS or kind is _Cached:
                    counted.add(id(value))  # other modules may have imported it
                    count = value.cache_info().currsize if kind is _Cached else len(value)
                    yield count, f"entries of {name}.{variable}"


def most(counts: Collection[tuple[int, str]], number: int = 5) -> str:
    """The largest of these counts, in words."""
    largest = sorted(counts, reverse=True)[:number]
    return ", ".join(f"{count} {noun}" for count, noun in largest if count)
