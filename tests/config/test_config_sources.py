"""That every example in config/sources/ is one: it loads as it is shipped, pasted into an elasticd.toml, and explains
every option."""

import re
from pathlib import Path

import msgspec
import pytest

from elasticd.config import load_settings
from elasticd.registry import discover

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "config" / "sources").glob("*.toml"))
REGISTRY = discover()
# Of every source, and explained in config/elasticd.toml.
COMMON = {"name", "every", "resolution"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_loads_and_has_the_type_of_its_file_name(path: Path) -> None:
    settings = load_settings(path, REGISTRY)
    drawn_on = {source.draws() for source in settings.sources}
    shown = [source for source in settings.sources if source.label not in drawn_on]
    assert {source.__struct_config__.tag for source in shown} == {path.stem}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_explains_itself_first_and_then_names_every_option(path: Path) -> None:
    text = path.read_text()
    assert re.match(r"# \w", text)
    options = {one.encode_name for one in msgspec.structs.fields(REGISTRY.sources[path.stem].type)} - COMMON
    named = set(re.findall(r"^(?:# )?(?:\[+source\.)?(\w+)(?: = |\]|\.\w+)", text, re.MULTILINE))
    assert options <= named


def test_every_source_has_an_example() -> None:
    assert {path.stem for path in EXAMPLES} == set(REGISTRY.sources) - {"resource-metrics"}
