"""docs/architecture.md names the rooms, arrows and functions that exist: a page that goes stale fails here."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = re.search(r"```mermaid\n(.*?)```", PAGE, re.DOTALL)
ENTRIES = {"__init__", "__main__"}
"""Modules that say nothing of a room: the package itself, and `python -m elasticd`."""

Arrows = dict[str, set[str]]


def drawn() -> Arrows:
    """The rooms of the picture, each with those that its arrows lead to."""
    assert PICTURE, "the page has a picture"
    names = re.findall(r'(\w+)\["', PICTURE[1])
    arrows: Arrows = {name: set() for name in names}
    for line in PICTURE[1].splitlines():
        room, arrow, ends = line.partition("-->")
        if arrow:
            arrows[room.split("[")[0].strip()] |= {end.strip() for end in ends.split("&")}
    return arrows


def rooms() -> set[str]:
    """The folders and modules at the top of elasticd/, and plugins/."""
    top = {
        path.stem for path in (ROOT / "elasticd").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    return (top - ENTRIES) | {"plugins"}


def imported() -> Arrows:
    """For each room those that its modules import."""
    arrows: Arrows = {room: set() for room in rooms()}
    for folder in ("elasticd", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            room = "plugins" if folder == "plugins" else parts[1]
            if room not in ENTRIES:
                arrows[room] |= {end for end in targets(path) if end not in ENTRIES} - {room}
    return arrows


def targets(path: Path) -> Iterator[str]:
    """The rooms that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = (
                [f"elasticd.{alias.name}" for alias in node.names] if node.module == "elasticd" else [f"{node.module}"]
            )
        for module in modules:
            package, _, rest = module.partition(".")
            if package == "elasticd" and rest:
                yield rest.split(".")[0]
            elif package == "elasticd_plugins":
                yield "plugins"


def reachable(arrows: Arrows, room: str) -> set[str]:
    """The rooms to which arrows lead from this one, over others too."""
    ends = set(arrows[room])
    return ends.union(*(reachable(arrows, end) for end in ends))


def layers() -> list[set[str]]:
    """The layers of the import contract, the highest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["type"] == "layers"]
    return [{room.strip() for room in re.split(r"[:|]", layer)} - ENTRIES for layer in contract["layers"]]


def mapped() -> set[str]:
    """What the first column of the map names."""
    _, _, after = PAGE.partition("\n## The map\n")
    return set(re.findall(r"^\| `([^`]+)` \|", after.partition("\n## ")[0], re.MULTILINE))


def test_the_picture_has_every_room_and_no_other() -> None:
    assert set(drawn()) == rooms()


def test_the_picture_has_the_rooms_of_the_import_contract() -> None:
    assert set(drawn()) - {"plugins"} == set().union(*layers())


def test_no_arrow_leads_up_the_layers_of_the_import_contract() -> None:
    depth = {room: number for number, layer in enumerate(layers()) for room in layer} | {"plugins": len(layers())}
    upwards = [
        (room, end) for room, ends in drawn().items() for end in ends if room != "plugins" and depth[room] > depth[end]
    ]
    assert upwards == []


def test_each_arrow_is_an_import() -> None:
    imports = imported()
    assert [(room, end) for room, ends in drawn().items() for end in sorted(ends - imports[room])] == []


def test_arrows_lead_wherever_an_import_does() -> None:
    arrows = drawn()
    assert [(room, end) for room, ends in imported().items() for end in sorted(ends - reachable(arrows, room))] == []


def test_the_map_has_a_line_for_each_folder_and_door() -> None:
    folders = {f"{path.parent.relative_to(ROOT)}/" for path in (ROOT / "elasticd").rglob("*.py")} - {"elasticd/"}
    doors = {f"elasticd/{path.name}" for path in (ROOT / "elasticd").glob("*.py") if path.stem not in ENTRIES}
    assert mapped() == folders | doors | {"plugins/"}


def named() -> list[tuple[str, str]]:
    """Functions and classes that the page names behind a file, or before one."""
    after = re.findall(r"\]\(\.\./([\w/]+\.py)\)((?: `\w+`,?)+)", PAGE)
    before = re.findall(r"`(\w+)` in \[[^\]]*\]\(\.\./([\w/]+\.py)\)", PAGE)
    return [(path, name) for path, names in after for name in re.findall(r"\w+", names)] + [
        (path, name) for name, path in before
    ]


@pytest.mark.parametrize(("path", "name"), named())
def test_what_the_page_names_is_in_that_file(path: str, name: str) -> None:
    nodes = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    assert name in {getattr(node, "name", "") for node in nodes}
