"""Writes what is shipped in config/, which is installed as elasticd_config: all of it, or the demo ready to run.

Knows where it is installed; knows nothing of what the files say.
"""

import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from elasticd.base.errors import UnavailableError

FORECASTS = "scipy"
"""The library without which nothing is forecast; elasticd[forecast] brings it."""


def write_examples(folder: Path) -> int:
    """Copy every shipped example into a new folder; return how many files there are. Raises UnavailableError where the
    folder is there already or cannot be written."""
    try:
        shutil.copytree(_shipped(), folder)
    except FileExistsError:
        raise UnavailableError(f"{folder}: must be a new folder, is there already") from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    return sum(path.is_file() for path in folder.rglob("*"))


def write_demo(folder: Path) -> str:
    """Copy the demo into a folder, in whose `state` it keeps its journal; return a line about what it has to do
    without, or an empty one. A folder that is there already stays as it is, so that its policies can be changed."""
    if (folder / "elasticd.toml").is_file():
        return ""
    try:
        shutil.copytree(_shipped() / "demo", folder, dirs_exist_ok=True)
        settings = folder / "elasticd.toml"
        text = settings.read_text(encoding="utf-8")
        settings.write_text(re.sub(r"^state = .*$", 'state = "state"', text, flags=re.MULTILINE), encoding="utf-8")
        return "" if find_spec(FORECASTS) else _without_forecasts(folder)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _without_forecasts(folder: Path) -> str:
    """Take the source and the strategies that forecast out of the files."""
    for path in folder.rglob("*.toml"):
        tables = path.read_text(encoding="utf-8").split("\n\n")
        rest = [table for table in tables if not re.search(r'^type = "forecast"$', table, re.MULTILINE)]
        if rest != tables:
            path.write_text("\n\n".join(rest), encoding="utf-8")
    return f"{folder}: without forecasts, as {FORECASTS} is not installed: pip install 'elasticd[forecast]'"


def _shipped() -> Path:
    """The folder of the installed config/."""
    for place in _places():
        if place.is_dir():
            return place
    raise UnavailableError("elasticd_config: must be installed with elasticd, is not there")


def _places() -> Iterator[Path]:
    spec = find_spec("elasticd_config")
    yield from map(Path, (spec.submodule_search_locations or ()) if spec else ())


def _unwritable(folder: Path, error: OSError) -> UnavailableError:
    return UnavailableError(f"{folder}: must be writable, is not: {error.strerror or error}")
