"""Finds and reads configuration: TOML files, and the templates beside them.

Knows files and folders; knows nothing of their content.
"""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli

from elasticd.base.errors import UNREADABLE, ConfigError
from elasticd.base.files import content_of
from elasticd.base.text import one_line

LARGEST = 1 << 20
"""Bytes of a configuration file, at most."""


def read_text(path: Path) -> str:
    """A file's text. Raises ConfigError for what is no readable text file, or too large to be a configuration."""
    try:
        status = path.stat()
        # Before it is opened, which alone may do something where it is a device.
        content = content_of(path, LARGEST + 1) if stat.S_ISREG(status.st_mode) else None
        if content is None or len(content) > LARGEST:
            raise ConfigError(str(path), "", f"must be a file of at most {LARGEST >> 20} MB")
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise ConfigError(str(path), "", f"must be readable, is not: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "", f"must be UTF-8, is not at byte {error.start + 1}") from None
    except ValueError as error:  # a character that no path may have
        raise ConfigError(one_line(str(path)), "", f"must be a file's path, is not: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's tables. Raises ConfigError, naming line and column."""
    text = read_text(path)
    try:
        return tomli.loads(text)
    except UNREADABLE as error:
        raise ConfigError(str(path), "", f"must be TOML: {one_line(str(error))}") from None


def tables_of(file: Mapping[str, Any], key: str) -> list[Any]:
    """The tables of an array; empty if it is missing or malformed, which is reported elsewhere."""
    tables = file.get(key)
    return tables if isinstance(tables, list) and all(isinstance(table, dict) for table in tables) else []


def policy_files(folder: Path, named_in: str = "") -> list[Path]:
    """The policy files of a folder, by name. `named_in`: the elasticd.toml that names the folder; empty: a person does.
    A folder that is missing or unreadable raises ConfigError, about that file if there is one."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml" and not path.name.startswith("."))
    except OSError as error:
        raise _about_folder(folder, named_in, "must be a readable folder", error.strerror) from None
    except ValueError as error:  # a character that no path may have
        raise _about_folder(folder, named_in, "must be a folder's path", error) from None


def _about_folder(folder: Path, named_in: str, must: str, why: object) -> ConfigError:
    place = one_line(str(folder))
    if named_in:
        return ConfigError(named_in, "policies", f"{must}, {place} is not: {why}")
    return ConfigError(place, "", f"{must}, is not: {why}")


def template_files(folder: Path) -> list[Path]:
    """The files beside the policies that may be templates: a policy changes when its template does."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml", ".json"))


def files_state(folder: Path) -> object:
    """A value that changes with every policy file and template, also where a mounted ConfigMap swaps its links."""
    try:
        stats = [(path.name, path.stat()) for path in (*policy_files(folder), *template_files(folder))]
        return [(name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats]
    except (ConfigError, OSError) as error:
        return str(error)
