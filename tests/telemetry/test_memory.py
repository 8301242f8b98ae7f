"""The limit of memory: how it is read, when it is near, and what there is most of."""

import json
import subprocess
import sys
from collections import deque
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

from elasticd.telemetry.memory import Memory, Nearness, entries, memory, most
from tests.kit.daemons import Daemon, policy, write

MB = 2**20


def group(limit: str, used: int, stat: str = "anon 1\ninactive_file 10") -> dict[str, str]:
    """The files of a group in version 2."""
    return {"memory.max": limit, "memory.current": str(used), "memory.stat": stat}


def group_1(limit: int, used: int) -> dict[str, str]:
    """The files of a group in version 1."""
    stat = "inactive_file 1\ntotal_inactive_file 10"
    return {"memory.limit_in_bytes": str(limit), "memory.usage_in_bytes": str(used), "memory.stat": stat}


TWO, ONE = "sys/fs/cgroup", "sys/fs/cgroup/memory"
UNIT = f"{TWO}/system.slice/elasticd.service"


@pytest.mark.parametrize(
    ("groups", "folders", "expected"),
    [
        pytest.param("0::/", {TWO: group("100", 60)}, Memory(50, 100), id="in a container"),
        pytest.param("0::/", {TWO: group("max", 60)}, None, id="no limit"),
        pytest.param("0::/system.slice/elasticd.service", {UNIT: group("100", 60)}, Memory(50, 100), id="MemoryMax"),
        pytest.param(
            "0::/system.slice/elasticd.service",
            {UNIT: group("100", 60), f"{TWO}/system.slice": group("200", 190)},
            Memory(180, 200),
            id="the slice around it is nearer to its limit",
        ),
        pytest.param(
            "5:cpu:/a\n4:memory:/a\n0::/", {f"{ONE}/a": group_1(100, 60)}, Memory(50, 100), id="version 1 of the groups"
        ),
        pytest.param("4:memory:/host/a", {ONE: group_1(100, 60)}, Memory(50, 100), id="version 1, in a container"),
        pytest.param("4:memory:/a", {f"{ONE}/a": group_1(9223372036854771712, 6)}, None, id="version 1, no limit"),
        pytest.param("0::/", {TWO: group("100", 5)}, Memory(0, 100), id="all of it can be had back"),
        pytest.param("0::/", {TWO: group("100", 60, "")}, Memory(60, 100), id="no statistics"),
        pytest.param("0::/", {TWO: group("many", 60)}, None, id="no number"),
        pytest.param("0::/", {TWO: group("0", 60)}, None, id="a limit of nothing"),
        pytest.param("0::/", {}, None, id="no files"),
        pytest.param("", {}, None, id="no groups"),
    ],
)
def test_the_limit_is_read_as_the_kubelet_reads_it(
    tmp_path: Path, groups: str, folders: dict[str, dict[str, str]], expected: Memory | None
) -> None:
    for folder, files in {**folders, "proc/self": {"cgroup": groups}}.items():
        for name, text in files.items():
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_text(text)
    assert memory(tmp_path) == expected


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max data size             DATA               unlimited            bytes
Max address space         ADDRESSES          unlimited            bytes
"""


@pytest.mark.parametrize(
    ("data", "addresses", "expected"),
    [
        pytest.param("unlimited", "unlimited", None, id="none"),
        pytest.param("unlimited", str(200 * MB), Memory(100 * MB, 200 * MB), id="ulimit -v"),
        pytest.param(str(50 * MB), "unlimited", Memory(40 * MB, 50 * MB), id="ulimit -d"),
        pytest.param(str(50 * MB), str(110 * MB), Memory(100 * MB, 110 * MB), id="the nearer of both"),
    ],
)
def test_the_limits_of_the_process_count_too(
    tmp_path: Path, data: str, addresses: str, expected: Memory | None
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/limits").write_text(LIMITS.replace("DATA", data).replace("ADDRESSES", addresses))
    (tmp_path / "proc/self/status").write_text(f"Name:\telasticd\nVmSize:\t{100 << 10} kB\nVmData:\t{40 << 10} kB\n")
    assert memory(tmp_path) == expected


@pytest.mark.parametrize(
    ("shares", "near"),
    [
        pytest.param([0.5, 0.89, 0.9, 0.95], [False, False, True, True], id="near from 90 % on"),
        pytest.param([0.95, 0.85, 0.8, 0.79, 0.85], [True, True, True, False, False], id="until it is below 80 %"),
    ],
)
def test_the_limit_is_near_until_well_below(shares: list[float], near: list[bool]) -> None:
    nearness, states = Nearness(), []
    for share in shares:
        before = nearness.near
        assert nearness.changed(share) == (nearness.near != before)
        states.append(nearness.near)
    assert states == near


def test_what_grows_in_a_plugin_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ModuleType("shop"), ModuleType("shop.more")
    leak = list(range(300))
    cached = lru_cache(lambda number: number)
    cached.__module__ = "shop"
    for number in range(20):
        cached(number)
    vars(first).update(LEAK=leak, answers=cached, recent=deque([1, 2]), text="x" * 1000)
    vars(second).update(imported=leak)
    for module in (first, second):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    counts = list(entries({"shop"}))
    assert most(counts) == "300 entries of shop.LEAK, 20 entries of shop.answers, 2 entries of shop.recent"
    assert most(counts, 1) == "300 entries of shop.LEAK"


NEAR_ITS_LIMIT = """
import asyncio, logging, sys
from pathlib import Path
from elasticd import daemon
from elasticd.telemetry import log, memory

shares = iter([95, 96])
memory.memory = lambda: memory.Memory(next(shares, 97) << 20, 100 << 20)
daemon.MEMORY_LOOK = 0.5
log.set_up(sys.stderr)
asyncio.run(daemon.run(Path("elasticd.toml")))
"""


@pytest.mark.slow
def test_a_daemon_near_its_limit_says_once_what_it_holds(tmp_path: Path) -> None:
    write(tmp_path, web=policy())
    (tmp_path / "near.py").write_text(NEAR_ITS_LIMIT)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "near.py"], cwd=tmp_path, stderr=log)
    try:
        running = Daemon(tmp_path, process)
        running.replicas(4)
        (line,) = running.logged(r"WARNING (95% of 100 MB of memory are in use; the daemon holds \d+ .*)")
        assert json.loads(running.get("/status"))["memory"] == line
        assert running.get("/readyz") == "ok\n"
        assert running.stop() == 0
        assert running.log.count("of memory are in use") == 1
    finally:
        process.kill()
        process.wait()
