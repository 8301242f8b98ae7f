"""Decodes one policy file into a policy about workloads or pods, or into one line for each mistake.

Knows the tables of a policy; knows nothing of other policies, nor of elasticd.toml.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from elasticd.base.decode import convert, shared_fields
from elasticd.base.errors import ConfigError, Mistakes, nearest
from elasticd.base.text import one_line, raised
from elasticd.cluster.kubernetes.wire.jobs import TemplateError, check, hash_of, parse
from elasticd.config.files import read_text, read_toml, tables_of
from elasticd.config.impossible import impossible, impossible_pool, sleeping
from elasticd.config.tables import records
from elasticd.model.jobs import JOB_KIND
from elasticd.model.policy import (
    Bounds,
    JobKeys,
    JobSet,
    Policy,
    PolicyKeys,
    PoolKeys,
    PoolPolicy,
    Select,
    Strategy,
    Target,
    Trust,
)
from elasticd.registry import Registry


class _JobTable(JobKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    template: dict[str, Any] | None = None
    template_file: str | None = None

    def __post_init__(self) -> None:
        if (self.template is None) == (self.template_file is None):
            which = "neither is" if self.template is None else "both are"
            raise ValueError(f"template: must be given, or else template_file, {which}")


class _PolicyFile(PolicyKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    limit: tuple[dict[str, Any], ...] = ()
    job: _JobTable | None = None

    def __post_init__(self) -> None:
        tables = {"[workload]": self.workload, "[select]": self.select, "[job]": self.job}
        present = [name for name, table in tables.items() if table is not None]
        if len(present) > 1:  # that none is given is told of the file
            raise ValueError(f"workload: must be given, or else [select], [job] or [pool], {' and '.join(present)} are")
        for key, table in (("workload", self.workload), ("select", self.select)):
            if table is not None and (table.api_version, table.kind) == JOB_KIND:
                raise ValueError(f"{key}.kind: must have a scale subresource, is Job: [job] is for sets of Jobs")


class _PoolFile(PoolKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: Annotated[list[dict[str, Any]], Meta(min_length=1)]


_KEYS = _PolicyFile.__struct_fields__
"""The keys of a policy about workloads."""

_ABOUT = {"workload", "select", "job"}
_KNOWN = (*_KEYS, "pool")


def load_policy(path: Path, registry: Registry) -> Policy | PoolPolicy:
    """One policy file. Raises ConfigError for all that is wrong with it, a line each."""
    return decode_policy(path, read_toml(path), registry)


def decode_policy(path: Path, file: dict[str, Any], registry: Registry) -> Policy | PoolPolicy:
    """The policy of a file whose tables have been read. Raises ConfigError for all that is wrong, a line each."""
    return (_decode_pool if "pool" in file else _decode_workloads)(path, file, registry)


def _decode_pool(path: Path, file: dict[str, Any], registry: Registry) -> PoolPolicy:
    name, mistakes = str(path), Mistakes()
    beside = [key for key in file if key in _KEYS and key not in _PoolFile.__struct_fields__]
    mistakes.add(ConfigError(name, key, "must not stand beside [pool], does") for key in beside)
    with mistakes.collected():
        raw = convert({key: value for key, value in file.items() if key not in beside}, _PoolFile, name)
    with mistakes.collected():
        strategies = records(tables_of(file, "strategy"), registry, name, "strategy", "pool")
    mistakes.raised()
    policy = PoolPolicy(name=path.stem, strategies=strategies, **shared_fields(raw, PoolKeys))
    mistakes.add(impossible_pool(policy, registry, name))
    mistakes.raised()
    return policy


def _decode_workloads(path: Path, file: dict[str, Any], registry: Registry) -> Policy:
    name, mistakes, strategies = str(path), Mistakes(), None
    mistakes.add(_wrong_keys(file, name))
    if not file or any(_meant_subject(key) == "pool" for key in file):
        mistakes.raised()
    file = {_meant_subject(key) or key: value for key, value in file.items()}
    if "job" in file and isinstance(file.get("replicas"), dict):
        file["replicas"] = {"min": 0, **file["replicas"]}  # without work there are no Jobs
    with mistakes.collected():
        raw = convert({key: value for key, value in file.items() if key in _KEYS}, _PolicyFile, name)
    with mistakes.collected():
        strategies = records(tables_of(file, "strategy"), registry, name, "strategy")
    with mistakes.collected():
        limits = records(tables_of(file, "limit"), registry, name, "limit")
    if mistakes.found or strategies is None:
        mistakes.add(impossible(name, strategies=strategies, **_decodable(file)))
        mistakes.raised()
    job = None if raw.job is None else _job_set(raw.job, path)
    keys = shared_fields(raw, PolicyKeys) | ({} if job is None else {"workload": job.target})
    policy = Policy(name=path.stem, strategies=strategies, limits=limits, job=job, **keys)
    for key, decoded in (("strategy", strategies), ("limit", limits)):
        for index, record in enumerate(decoded):
            mistakes.add(_check_under(policy, record, name, f"{key}[{index}]"))
    mistakes.add(sleeping(policy, name))
    mistakes.add(impossible(name, policy.workload, policy.select, policy.replicas, policy.trust, strategies))
    mistakes.raised()
    return policy


def _decodable(file: Mapping[str, Any]) -> dict[str, Any]:
    tables = {}
    for key, kind in (("workload", Target), ("select", Select), ("replicas", Bounds), ("trust", Trust)):
        with suppress(ConfigError):
            if key in file:
                tables[key] = convert(file[key], kind, "")
    return tables


def _wrong_keys(file: Mapping[str, Any], name: str) -> Iterator[ConfigError]:
    """Unknown keys, and a file that does not say which workloads it is about."""
    for key in file:
        if key not in _KEYS:
            problem = f"no such key{nearest(key[:60], _KNOWN)}"
            yield ConfigError(name, one_line(key), "must stand beside [pool], does not" if key == "moves" else problem)
    if not _ABOUT & file.keys() and not any(map(_meant_subject, file)):
        is_ = "none of them is" if file else "the file is empty"
        yield ConfigError(name, "workload", f"must be given, or else [select], [job] or [pool], {is_}")


def _meant_subject(key: str) -> str:
    """The table that a misspelt key stands for: pool, workload, select or job; empty if none of these."""
    guess = "" if key in _KNOWN else nearest(key[:60], _KNOWN)
    return next((subject for subject in ("pool", *_ABOUT) if f'"{subject}"' in guess), "")


def _check_under(policy: Policy, record: Strategy, file: str, key: str) -> list[ConfigError]:
    try:
        answer = record.check(policy)
        problems = [answer] if isinstance(answer, str) else [*(answer or ())]
        parts = [problem.partition(": ") for problem in problems]
    except BaseException as error:  # sys.exit, too
        return [ConfigError(file, key, f"must be something its type can check, raised {raised(error)}")]
    return [
        ConfigError(file, f"{key}.{option}" if text else key, one_line(text or option)) for option, _, text in parts
    ]


def _job_set(table: _JobTable, path: Path) -> JobSet:
    """A job set with its template, which may be a file beside the policy's."""
    file, key, manifest = str(path), "job.template", table.template
    try:
        if table.template_file is not None:
            beside = path.parent / Path(table.template_file).expanduser()
            text = read_text(beside)
            file, key = str(beside), ""
            manifest = parse(text)
        checked = check(manifest, table.namespace)
    except TemplateError as error:
        raise ConfigError(file, ".".join(filter(None, (key, error.key))), error.problem) from None
    return JobSet(manifest=checked, template=hash_of(checked), **shared_fields(table, JobKeys))
