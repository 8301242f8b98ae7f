"""Writes what runs did over time into a file: a row for each step and workload, or node.

Knows CSV and Parquet; knows nothing of what the rows are compared for.
"""

import csv
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import Any

from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.base.files import replacing
from elasticd.base.shapes import moment
from elasticd.lab.runs import Run, Runs, WorkloadTrack
from elasticd.lab.service import quantile
from elasticd.sources.recorded.files import PARQUET

ENDINGS = (".csv", PARQUET)
SERVED = ("requests", "failed", "wait_median", "wait_p99")
WORKLOADS = ("policies", "seed", "time", "workload", "demand", "unserved", "replicas", "ready", *SERVED)
NODES = ("policies", "seed", "time", "node", "pods", "requested", "used")

Row = tuple[str | float | None, ...]


def workload_rows(runs: Runs, first_seed: int) -> Iterator[Row]:
    """A row for each workload and step: demand and what of it was not served in cores, on average over the step, and
    replicas and ready pods at its end; of a service, requests and those that failed, and how long those that were
    served waited, in seconds. `time` is the end of the step."""
    for name, seed, run in _each(runs, first_seed):
        for ref, track in run.workloads.items():
            served = _served(track) or [(None,) * len(SERVED)] * len(run.times)
            columns = zip(
                run.times,
                track.demand,
                track.unserved,
                track.replicas,
                track.ready,
                *zip(*served, strict=True),
                strict=True,
            )
            yield from ((name, seed, moment(time), str(ref), *values) for time, *values in columns)


def _served(track: WorkloadTrack) -> list[Row]:
    columns = zip(track.requests, track.failed, track.waits, strict=True)
    return [(many, failed, quantile([waits], 0.5), quantile([waits], 0.99)) for many, failed, waits in columns]


def node_rows(runs: Runs, first_seed: int) -> Iterator[Row]:
    """A row for each node and step: its pods, and the cores that they request and use, at the end of the step. None
    while a node is not there."""
    for name, seed, run in _each(runs, first_seed):
        for node, track in run.nodes.items():
            columns = zip(run.times, track.pods, track.requested, track.used, strict=True)
            yield from ((name, seed, moment(at), node, *values) for at, *values in columns if not isnan(values[1]))


def _each(runs: Runs, first_seed: int) -> Iterator[tuple[str, int, Run]]:
    for name, by_seed in runs.items():
        for seed, run in enumerate(by_seed, first_seed):
            yield name, seed, run


def check_file(out: Path, *, force: bool, option: str) -> None:
    """Refuse a file that could not be written, before anything is played."""
    if out.suffix not in ENDINGS:
        raise ConfigError("", option, f'must end in {" or ".join(ENDINGS)}, is "{out}"')
    if out.suffix == PARQUET:
        _pyarrow(option)
    check_new(out, force=force, option=option)


def check_new(out: Path, *, force: bool, option: str) -> None:
    """Refuse a file that is there, unless it may be written over, or has no folder. Raises ConfigError."""
    if out.exists() and not force:
        raise ConfigError("", option, f"must be a new file, {out} is there (--force)")
    if not out.absolute().parent.is_dir():
        raise ConfigError("", option, f"must be in a folder that is there, is {out}")


def save(out: Path, data: bytes) -> None:
    """Write a file, which appears only once it is complete. Raises UnavailableError."""
    with _writable(out), replacing(out, "wb") as file:
        file.write(data)


def write(out: Path, columns: Sequence[str], rows: Iterator[Row], option: str) -> None:
    """Write the rows into a file, which appears only once it is complete."""
    with _writable(out):
        if out.suffix == PARQUET:
            pyarrow, parquet = _pyarrow(option), importlib.import_module("pyarrow.parquet")
            arrays = zip(*rows, strict=True)
            table = pyarrow.table({name: list(values) for name, values in zip(columns, arrays, strict=True)})
            with replacing(out, "wb") as file:
                parquet.write_table(table, file)
            return
        with replacing(out, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: str | float | None) -> str | float | None:
    """Not known is nothing, which is not zero."""
    return value if not isinstance(value, float) else None if isnan(value) else f"{value:.10g}"


def _pyarrow(option: str) -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        problem = "needs pyarrow for Parquet, which is not installed: pip install elasticd[parquet]"
        raise ConfigError("", option, problem) from None


@contextmanager
def _writable(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"{out}: must be writable, is not: {error.strerror or error}") from None
