"""A new plugin, written as a complete package: its module, a test that passes, pyproject.toml and README.

The texts are in templates/. Knows names; knows nothing of what is installed but which names are taken.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

from elasticd.api import API_VERSION
from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.base.text import one_line
from elasticd.registry import Registry

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_PREFIX = "elasticd-"

KINDS = ("strategy", "limit", "source", "scorer")
"""What can be written, by `--kind`."""


def write_plugin(name: str, kind: str, registry: Registry, folder: Path) -> Path:
    """Write a package for a plugin of this name and kind into a new folder NAME of this one, and return that. Raises
    ConfigError for a name that cannot be, UnavailableError where the folder is there already or cannot be written."""
    tag = name.removeprefix(_PREFIX)
    _check_name(name, tag, registry)
    texts, place = _texts(tag, kind), folder / name
    try:
        place.mkdir()
        for path, text in texts.items():
            (place / path).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UnavailableError(f"{place}: must be a new folder, is there already") from None
    except OSError as error:
        raise UnavailableError(f"{place}: must be writable, is not: {error.strerror}") from None
    return place


def _check_name(name: str, tag: str, registry: Registry) -> None:
    if len(name) > 63 or not _NAME.fullmatch(tag):
        shown = one_line(name)[:80]
        raise ConfigError("", "NAME", f'must be words of lowercase letters or digits, as queue-length, is "{shown}"')
    taken = tag in registry.strategies or tag in registry.sources or registry.modules.has_plugin(tag)
    if taken or tag == "plugins":  # the package of the bundled ones
        raise ConfigError("", "NAME", f'must be a new one, "{tag}" is taken')


def _texts(tag: str, kind: str) -> dict[str, str]:
    words = tag.split("-")
    names = {
        "tag": tag,
        "module": "_".join(["elasticd", *words]),
        "title": "".join(word.capitalize() for word in words),
        "version": API_VERSION,
    }
    names["usage"] = _filled(f"{kind}.toml", names).rstrip()
    return {
        "pyproject.toml": _filled("pyproject.toml", names),
        "README.md": _filled("README.md", names),
        f"{names['module']}.py": _filled(f"{kind}.py", names),
        f"test_{names['module']}.py": _filled(f"test_{kind}.py", names),
    }


def _filled(template: str, names: Mapping[str, str]) -> str:
    text = files("elasticd.ui").joinpath("templates", f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(names)
