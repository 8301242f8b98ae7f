"""The house's budgets: lengths of functions, docstrings, names of tests, and that every package is installed.

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
    for package in sorted(named - found):
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
