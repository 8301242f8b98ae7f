"""The house's budgets: lengths of functions, docstrings, names of tests, that tests use public names, and that every
package is installed.

Knows only source text, imports nothing of elasticd. Run it as `python tests/house.py`; it prints one summary
line, and exits 1 when a budget is broken, naming each place. `--fillers` names
the locals that do not say what they hold.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"elasticd": "elasticd", "elasticd_plugins": "plugins"}
FUNCTION_LINES = 60
FUNCTION_LINES_P95 = 30
TEST_NAME_WORDS = 10
_FILLERS = """
all_ asked done found given heard held here it kept known left looked made more named one ones other others rest said
seen shown taken that there these this those told wanted what who whole whom
"""
FILLERS = frozenset(_FILLERS.split())
"""Names of locals that do not say what they hold."""

PRIVATE = {
    "tests/bench/forecast.py": ("_process", "the memory of the process that fits is read from outside"),
    "tests/cluster/simulated/test_placing_properties.py": ("_pods", "a bare pod that was rejected is in no snapshot"),
    "tests/kit/loops.py": ("_schedule", "virtual time stops before the next evaluation, not before the next tick"),
    "tests/kube/test_cluster.py": ("_parts", "only the elector of one of two clusters is cut off"),
    "tests/kube/test_mqtt.py": (
        "_broken _client _inbox _sock_close _table _views",
        "connections are cut below aiomqtt, and what came is awaited without another read",
    ),
    "tests/plugins/test_rebalance_properties.py": ("_Draft _hopeful", "a shortcut is compared with the longer way"),
    "tests/reference.py": ("_actions", "argparse tells its arguments nowhere else; shtab reads them there too"),
    "tests/runtime/test_governed.py": ("_claims _claimants", "the bound of memory shows nowhere else"),
    "tests/runtime/test_schedule.py": ("_heap", "the bound of memory shows nowhere else"),
    "tests/sources/mqtt/test_intake.py": ("_routes", "the bound of memory shows nowhere else"),
    "tests/sources/mqtt/test_link.py": (
        "_client _last_bytes_received _on_message _wait_for",
        "they override aiomqtt's own",
    ),
    "tests/sources/mqtt/test_link_reading.py": ("_read", "a part of a message that has come shows nowhere else"),
    "tests/sources/mqtt/test_packets.py": ("_out_packet _send_puback", "they are paho's"),
    "tests/sources/test_prometheus_rules.py": ("_search", "nothing tells when the search beside reads has ended"),
}
"""Private names that single files of tests use all the same, and why."""
DATA_ONLY = "elasticd_config"
"""The package that has no Python in it."""
NAMED_TUPLE = ("_asdict", "_fields", "_replace")
"""Public methods of named tuples."""
_BY_TEXT = ("delattr", "getattr", "hasattr", "object", "patch", "setattr")
"""Functions, also of pytest's monkeypatch and of mock, that take the name of an attribute as text."""

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """A function or method, and its length in lines from `def` to its end, docstring included."""

    where: str
    name: str
    lines: int


class Module(NamedTuple):
    """A source file, parsed."""

    path: str
    lines: int
    tree: ast.Module


def read_modules(root: Path) -> list[Module]:
    """Every module of the daemon and of the bundled plugins, by path."""
    paths = sorted(path for folder in FOLDERS.values() for path in (root / folder).rglob("*.py"))
    return [_read(path, root) for path in paths]


def _read(path: Path, root: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(path.relative_to(root).as_posix(), len(text.splitlines()), ast.parse(text, str(path)))


def functions_of(module: Module) -> list[Function]:
    """Every function of a module, methods and nested ones too."""
    nodes = [node for node in ast.walk(module.tree) if isinstance(node, AnyFunction)]
    return [Function(f"{module.path}:{node.lineno}", node.name, _lines(node)) for node in nodes]


def _lines(node: AnyFunction) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def percentile(values: Sequence[int], percent: float) -> int:
    """The smallest value that at least `percent` of the values do not exceed (nearest rank); 0 of none."""
    return sorted(values)[max(ceil(len(values) * percent / 100) - 1, 0)] if values else 0


def check_modules(modules: Sequence[Module]) -> Iterator[str]:
    """What is wrong with single modules: something public without a docstring."""
    for path, _, tree in modules:
        if not ast.get_docstring(tree):
            yield f"{path}:1: a module must have a docstring, has none"
        for node in tree.body:
            if _is_public(node) and not ast.get_docstring(node):
                yield f"{path}:{node.lineno}: {node.name} is public and must have a docstring, has none"


def _is_public(node: ast.stmt) -> TypeGuard[AnyFunction | ast.ClassDef]:
    """A function or class that others use. What a hook gives stands in elasticd/hookspecs.py, once."""
    if not isinstance(node, AnyFunction | ast.ClassDef) or node.name.startswith("_"):
        return False
    return not any(isinstance(mark, ast.Name) and mark.id == "hookimpl" for mark in node.decorator_list)


def check_functions(functions: Sequence[Function]) -> Iterator[str]:
    """Functions that are too long; and, where the 95th percentile is, those above it."""
    p95 = percentile([function.lines for function in functions], 95)
    for where, name, lines in functions:
        if lines > FUNCTION_LINES:
            yield f"{where}: {name} must have at most {FUNCTION_LINES} lines, has {lines}"
        elif p95 > FUNCTION_LINES_P95 and lines > FUNCTION_LINES_P95:
            yield f"{where}: 95th percentile must be at most {FUNCTION_LINES_P95} lines, {name} has {lines}"


def check_test_names(root: Path) -> Iterator[str]:
    """Tests whose names are longer sentences than a reader takes in at once."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        for name in re.findall(r"^\s*(?:async )?def test_(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            if (words := len(name.split("_"))) > TEST_NAME_WORDS:
                where = path.relative_to(root).as_posix()
                yield f"{where}: test_{name} must have at most {TEST_NAME_WORDS} words, has {words}"


def check_privates(root: Path) -> Iterator[str]:
    """Private names that tests use of what is not their own; and exceptions that nobody needs any more."""
    for path in sorted((root / "tests").rglob("*.py")):
        module = _read(path, root)
        excepted = set(PRIVATE.get(module.path, ("", ""))[0].split())
        used = list(privates_of(module.tree))
        for line, name in used:
            if name not in excepted:
                yield f"{module.path}:{line}: {name} is private: a test must use what is public"
        for name in sorted(excepted - {name for _, name in used}):
            yield f"tests/house.py:1: PRIVATE must name only what is used, {module.path} does not use {name}"


def privates_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each use of another's private name: its line and the name. A class may use its own."""
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)):
        names: list[str] = []
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _BY_TEXT:
            texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            names = [text.rpartition(".")[2] for text in texts]
        yield from ((node.lineno, name) for name in names if re.match("_[^_]", name) and name not in NAMED_TUPLE)


def _is_own(value: ast.expr) -> bool:
    return ast.unparse(value) in ("self", "cls", "super()")


def locals_of(module: Module) -> Iterator[tuple[str, str]]:
    """Where a function is and the name of each of its locals, once for each function that binds it."""
    for node in ast.walk(module.tree):
        if isinstance(node, AnyFunction):
            bound = {
                name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
            yield from ((f"{module.path}:{node.lineno} {node.name}", name) for name in sorted(bound))


def check_packages(root: Path) -> Iterator[str]:
    """Folders that would be missing from an installed elasticd, or are named and do not exist."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    named = set(project["tool"]["setuptools"]["packages"])
    found = {
        ".".join([package, *path.parent.relative_to(root / folder).parts])
        for package, folder in FOLDERS.items()
        for path in (root / folder).rglob("*.py")
    }
    for package in sorted(found - named):
        yield f"pyproject.toml:1: tool.setuptools.packages must name {package}, does not"
    for package in sorted(named - found - {DATA_ONLY}):
        yield f"pyproject.toml:1: tool.setuptools.packages must name only what exists, names {package}"


def _summary(lines: Sequence[int]) -> str:
    middle, longest = median(lines or [0]), max(lines, default=0)
    return f"median {middle:.0f} lines, 95th percentile {percentile(lines, 95)}, longest {longest}"


def main(root: Path = ROOT) -> int:
    """Print the violations and one summary line; 1 when there are violations, else 0."""
    modules = read_modules(root)
    functions = [function for module in modules for function in functions_of(module)]
    names = [pair for module in modules for pair in locals_of(module)]
    fillers = [pair for pair in names if pair[1] in FILLERS]
    if "--fillers" in sys.argv:
        print(*(f"{where}: {name}" for where, name in fillers), sep="\n")
    violations = [
        *check_modules(modules),
        *check_functions(functions),
        *check_test_names(root),
        *check_privates(root),
        *check_packages(root),
    ]
    for violation in violations:
        print(violation)
    print(
        f"{len(modules)} modules: {_summary([module.lines for module in modules])}; "
        f"{len(functions)} functions: {_summary([function.lines for function in functions])}; "
        f"{len(fillers) / max(1, len(names)):.1%} of {len(names)} locals have a filler for a name; "
        f"{len(violations)} violations"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
