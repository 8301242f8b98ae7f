"""Finished runs on disk, a file each, so that long work that was interrupted goes on where it was.

Knows what a run depends on, and how it is written; knows nothing of how it is played.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.base.files import replacing
from elasticd.lab.runs import Change, JobTrack, NodeTrack, Run, WorkloadTrack
from elasticd.model.workload import Ref

ENDING = ".run"

FILES = ("recording", "file", "path")
"""Options of a demand or a source that may name a file on which a run depends."""


class _Written(Struct, array_like=True):
    """A run as its file has it: a mapping whose keys are records is a list of pairs."""

    begun: float
    step: float
    workloads: list[tuple[Ref, WorkloadTrack]]
    nodes: dict[str, NodeTrack]
    changes: list[tuple[Ref, list[Change]]]
    evicted: list[Ref]
    failures: dict[str, int]
    evictions: list[int]
    waiting: list[int]
    jobs: list[tuple[Ref, JobTrack]]


_encoder = msgspec.msgpack.Encoder(enc_hook=lambda waits: waits.tobytes())
_decoder = msgspec.msgpack.Decoder(_Written, dec_hook=lambda _, data: np.frombuffer(data, dtype=np.float32))


def make_study(folder: Path) -> None:
    """Make the folder of --study, if it is not there. Raises ConfigError for what cannot be one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("", "--study", f"must be a folder, {folder} is not: {error.strerror}") from None


def study_file(folder: Path | None, name: str) -> Path | None:
    """The file of this name in the folder of --study, which is made if it is not there; None without a folder. Raises
    ConfigError."""
    if folder is None:
        return None
    make_study(folder)
    return folder / name


class KeptRuns:
    """The finished runs in a folder, by what they depend on. Without a folder none is kept."""

    def __init__(self, folder: Path | None) -> None:
        """Raises ConfigError for what is no folder and cannot become one."""
        self._folder = folder
        if folder is not None:
            make_study(folder)

    def load(self, key: str) -> Run | None:
        """The run of this key; None where there is none, or its file is damaged."""
        if self._folder is None:
            return None
        try:
            written = _decoder.decode((self._folder / f"{key}{ENDING}").read_bytes())
        except (OSError, msgspec.DecodeError, ValueError):
            return None
        return Run(
            written.begun,
            written.step,
            dict(written.workloads),
            written.nodes,
            dict(written.changes),
            written.evicted,
            written.evictions,
            written.waiting,
            dict(written.jobs),
            written.failures,
        )

    def save(self, key: str, run: Run) -> None:
        """Keep a run. Raises UnavailableError."""
        if self._folder is None:
            return
        written = _Written(
            run.begun,
            run.step,
            [*run.workloads.items()],
            run.nodes,
            [*run.changes.items()],
            run.evicted,
            run.failures,
            run.evictions,
            run.waiting,
            [*run.jobs.items()],
        )
        try:
            with replacing(self._folder / f"{key}{ENDING}", "wb") as file:
                file.write(_encoder.encode(written))
        except OSError as error:
            raise UnavailableError(f"{self._folder}: must be writable, is not: {error.strerror}") from None


def run_key(about: Mapping[str, Any], plugins: Iterable[object]) -> str:
    """A name for all that a run depends on: these options, the files that they name, the code of these plugins, and
    the versions of elasticd and Python."""
    options = msgspec.to_builtins(about, str_keys=True, order="deterministic")
    code = sorted({path for plugin in plugins for path in _code_of(type(plugin))})
    files = {str(path): _digest(path) for path in (*_files(options), *code)}
    versions = (version("elasticd"), sys.version, np.__version__)
    return sha256(msgspec.json.encode([options, sorted(files.items()), versions])).hexdigest()[:32]


def _files(options: Any) -> Iterator[Path]:
    """The files that are named somewhere in options."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            if name in FILES and isinstance(value, str) and value:
                yield Path(value)
            else:
                yield from _files(value)
    elif isinstance(options, list | tuple):
        for value in options:
            yield from _files(value)


def _code_of(plugin: type) -> list[Path]:
    """The files of the module in which a plugin is defined, or of its package."""
    module = sys.modules.get(plugin.__module__)
    path = Path(getattr(module, "__file__", None) or "")
    return sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else [path]


def _digest(path: Path) -> str:
    """Of a file's content; empty where it cannot be read, which a run will find."""
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
