"""By what means each test brings its fault about, read from what it uses: a real server or a scripted one, a proxy,
signals, virtual time, damaged text, drawn examples.

Knows source text, and what the tests' own tools are for; runs nothing.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

DRAWN = "drawn examples"
TESTS = Path(__file__).resolve().parents[1]

MEANS: Mapping[str, tuple[str, ...]] = {
    "API server": ("tests.kube.control_plane",),
    "Prometheus": ("tests.kube.prometheus_server",),
    "Mosquitto": ("tests.kube.broker",),
    "proxy": ("tests.kube.between", "tests.kube.relay"),
    "SIGKILL or SIGSTOP": ("SIGKILL", "SIGSTOP", "kill"),
    "process": ("tests.kit.daemons", "tests.kube.running", "tests.kube.moving.Daemon"),
    "scripted server": ("tests.cluster.kubernetes.fake.FakeApi", "tests.kit.sources.scripted", "aiohttp.web"),
    "rogue plugins": ("tests.kit.rogues", "tests.kit.blocking"),
    "damaged text": ("tests.kit.damage",),
    "virtual time": (
        "elasticd.base.clock.VirtualClock",
        "tests.cluster.simulated",
        "tests.kit.demos",
        "tests.kit.faults",
        "tests.kit.loops",
    ),
    DRAWN: ("hypothesis.given",),
}
"""How what a test uses begins, by what that is."""


class Module(NamedTuple):
    """What is defined at the head of a file, and what each name that it imports is."""

    defined: Mapping[str, ast.stmt]
    imported: Mapping[str, str]


@cache
def module(path: Path) -> Module:
    """Read a file of tests."""
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, str] = {}
    for statement in ast.parse(path.read_text()).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                defined[name] = statement
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                defined[name] = statement
            case ast.ImportFrom(module=source, names=names):
                imported |= {one.asname or one.name: f"{source}.{one.name}" for one in names}
            case ast.Import(names=names):
                imported |= {one.asname or one.name: one.name for one in names}
            case _:
                pass
    return Module(defined, imported)


def conftests(path: Path) -> Iterator[Path]:
    """The files whose fixtures the tests of this file may use, its own first."""
    yield path
    for folder in path.parents:
        if (folder / "conftest.py").exists():
            yield folder / "conftest.py"
        if folder == TESTS:
            return


def uses(path: Path, name: str, seen: set[str]) -> Iterator[str]:
    """All that a function uses, by the names of modules, of attributes and of fixtures, through what it calls."""
    for place in conftests(path):
        known = module(place)
        if name in known.imported:
            yield known.imported[name]
            return
        if name in known.defined:
            yield name
            for used in _names(known.defined[name]) - seen:
                seen.add(used)
                yield from uses(path, used, seen)
            return
    yield name


def _names(tree: ast.AST) -> set[str]:
    names = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg"}
    return {getattr(node, names[type(node)]) for node in ast.walk(tree) if type(node) in names}


@cache
def places() -> Mapping[str, Sequence[Path]]:
    """The files in which each test is, by its name."""
    found = defaultdict[str, list[Path]](list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE):
            found[name].append(path)
    return found


def means(tests: Iterable[str]) -> list[str]:
    """By what means these tests bring about what they are about."""
    used = {one for test in tests for path in places().get(test, ()) for one in uses(path, test, set())}
    found = [words for words, markers in MEANS.items() if any(one.startswith(markers) for one in used)]
    return found or ["plain calls"]
