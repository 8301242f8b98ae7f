"""Decodes TOML files into settings and policies, or into one line for each mistake.

Knows files and the types they decode to; knows nothing of how those are used.
"""

import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli
from msgspec import UNSET, Meta, Struct, UnsetType, field

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError, Mistakes, nearest
from elasticd.base.secrets import CREDENTIAL
from elasticd.base.text import one_line, raised
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.kubernetes.wire.jobs import TemplateError, check, hash_of, parse
from elasticd.cluster.simulated import Simulated
from elasticd.config.clashes import clashes
from elasticd.config.futile import PolicyParts, futile, parts_of
from elasticd.config.source_names import clashing
from elasticd.config.tables import no_such, records, typed
from elasticd.config.zero import check_wakes
from elasticd.model.jobs import JOB_KIND
from elasticd.model.policy import Bounds, Combine, Foreign, Freeze, JobSet, Policy, Select, Strategy, Target, Trust
from elasticd.ports.source import Source
from elasticd.registry import Registry
from elasticd.runtime.disruption import DisruptionSettings
from elasticd.sources.bounds import MOST_SAMPLES
from elasticd.telemetry.mqtt_publisher import PublisherSettings

CLUSTERS: Mapping[str, type[Kubernetes | Simulated]] = {"kubernetes": Kubernetes, "simulated": Simulated}


class HttpSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where /metrics, /healthz, /readyz and /status are served. Port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 9464


class JournalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How much the journal keeps on disk: `segments` files of `megabytes` each."""

    megabytes: Annotated[float, Meta(gt=0)] = 16
    segments: Annotated[int, Meta(ge=2)] = 16


class Settings(Struct, frozen=True, kw_only=True):
    """elasticd.toml, decoded. Relative paths in it are relative to its folder."""

    cluster: Kubernetes | Simulated
    sources: tuple[Source, ...]
    policies: Path
    state: Path
    dry_run: bool = False
    max_samples: int = MOST_SAMPLES
    http: HttpSettings = HttpSettings()
    journal: JournalSettings = JournalSettings()
    outlet: PublisherSettings | None = None
    disruption: DisruptionSettings = DisruptionSettings()
    renamed: tuple[str, ...] = ()
    """A line for each table that has its old name, which works for one release more."""


class _SettingsFile(Struct, frozen=True, forbid_unknown_fields=True):
    cluster: dict[str, Any] = {}
    source: list[dict[str, Any]] = []
    policies: str = "policies"
    state: str = "/var/lib/elasticd"
    dry_run: bool = False
    max_samples: Annotated[int, Meta(ge=1)] = MOST_SAMPLES
    http: HttpSettings = field(default_factory=HttpSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    outlet: dict[str, Any] | None = None
    disruption: DisruptionSettings = field(default_factory=DisruptionSettings)


class _JobTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table [job]. 63 characters are the most that a Job's name may have, of which the hash and number take 20."""

    namespace: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=43)]
    template: dict[str, Any] | UnsetType = UNSET
    template_file: str | UnsetType = UNSET
    successful_history: Annotated[int, Meta(ge=0, le=10_000)] = 100
    failed_history: Annotated[int, Meta(ge=0, le=10_000)] = 100
    rollout: Literal["gradual", "default"] = "gradual"

    def __post_init__(self) -> None:
        if (self.template is UNSET) == (self.template_file is UNSET):
            which = "neither is" if self.template is UNSET else "both are"
            raise ValueError(f"template: must be given, or else template_file, {which}")


class _PolicyFile(Struct, frozen=True, forbid_unknown_fields=True):
    replicas: Bounds
    strategy: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    limit: list[dict[str, Any]] = []
    workload: Target | UnsetType = UNSET
    select: Select | UnsetType = UNSET
    job: _JobTable | UnsetType = UNSET
    mode: Literal["act", "observe"] = "observe"
    interval: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    jitter: Annotated[float, Meta(ge=0, le=0.5)] = 0.1
    max_age: Annotated[float, Meta(gt=0)] = 120.0
    trust: Trust = field(default_factory=Trust)
    combine: Combine = "max"
    freeze: Freeze = "none"
    foreign: Foreign = field(default_factory=Foreign)

    def __post_init__(self) -> None:
        tables = {"[workload]": self.workload, "[select]": self.select, "[job]": self.job}
        present = [name for name, table in tables.items() if table is not UNSET]
        if len(present) != 1:
            which = f"{' and '.join(present)} are" if present else "none of them is"
            raise ValueError(f"workload: must be given, or else [select], [job] or [pool], {which}")
        for key in ("workload", "select"):
            table = getattr(self, key)
            if table is not UNSET and (table.api_version, table.kind) == JOB_KIND:
                raise ValueError(f"{key}.kind: must have a scale subresource, is Job: [job] is for sets of Jobs")


POLICY_KEYS = _PolicyFile.__struct_fields__
"""The keys of a policy about workloads."""

_ABOUT = {"workload", "select", "job"}
_KNOWN = (*POLICY_KEYS, "pool")

_USUAL = [{"type": "resource-metrics"}]
"""The sources if elasticd.toml names none."""

LARGEST = 1 << 20
"""Bytes of a configuration file, at most."""


def read_text(path: Path) -> str:
    """A file's text. Raises ConfigError for what is no readable text file, or too large to be a configuration."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise ConfigError(str(path), "", f"must be a file of at most {LARGEST >> 20} MB")
        return path.read_text(encoding="utf-8-sig")
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
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), "", f"must be TOML: {one_line(str(error))}") from None


def load_settings(path: Path, registry: Registry) -> Settings:
    """elasticd.toml. Raises ConfigError for all that is wrong with it, a line each."""
    name, folder = str(path), path.absolute().parent
    file, renamed = _with_new_names(read_toml(path), name)
    mistakes = Mistakes()
    with mistakes.collected():
        raw = convert(file, _SettingsFile, name)
    with mistakes.collected():
        cluster = _cluster(_anchored(file.get("cluster", {}), folder), name)
    with mistakes.collected():
        sources = _sources(_anchored(tables_of(file, "source"), folder) if "source" in file else _USUAL, registry, name)
    with mistakes.collected():
        outlet = (
            convert(_anchored(file["outlet"], folder), PublisherSettings, name, "outlet") if "outlet" in file else None
        )
    mistakes.raised()
    return Settings(
        cluster=cluster,
        sources=sources,
        policies=folder / raw.policies,
        state=folder / raw.state,
        dry_run=raw.dry_run,
        max_samples=raw.max_samples,
        http=raw.http,
        journal=raw.journal,
        disruption=raw.disruption,
        renamed=renamed,
        outlet=outlet,
    )


_RENAMED = {"broker": "disruption"}
"""Tables of elasticd.toml by their names in 0.1, which 0.2 refuses."""


def _with_new_names(file: dict[str, Any], name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The tables by their present names, and a line for each that had its old one."""
    old_names = [old for old in _RENAMED if old in file]
    for old in old_names:
        if _RENAMED[old] in file:
            raise ConfigError(name, old, f"must be left out beside [{_RENAMED[old]}], its new name, is given")
    tables = {_RENAMED.get(key, key): table for key, table in file.items()}
    return tables, tuple(
        f"{name}: {old}: is called [{_RENAMED[old]}] now; 0.2 refuses the old name" for old in old_names
    )


def tables_of(file: Mapping[str, Any], key: str) -> list[Any]:
    """The tables of an array; empty if it is missing or malformed, which is reported elsewhere."""
    tables = file.get(key)
    return tables if isinstance(tables, list) and all(isinstance(table, dict) for table in tables) else []


def _cluster(table: Any, file: str) -> Kubernetes | Simulated:
    kind = table.get("type", "kubernetes") if isinstance(table, dict) else "kubernetes"
    if not isinstance(kind, str) or kind not in CLUSTERS:
        raise ConfigError(file, "cluster.type", no_such(kind, CLUSTERS))
    return convert({"type": kind, **table} if isinstance(table, dict) else table, CLUSTERS[kind], file, "cluster")


def _sources(tables: Sequence[dict[str, Any]], registry: Registry, file: str) -> tuple[Source, ...]:
    mistakes, sources = Mistakes(), list[Source]()
    for index, table in enumerate(tables):
        with mistakes.collected():
            sources.append(typed(table, registry.sources, registry, file, f"source[{index}]"))
    mistakes.raised()
    mistakes.add(clashing(sources, file))
    mistakes.raised()
    return tuple(sources)


def _anchored(value: Any, folder: Path) -> Any:
    """The tables with relative paths of files made absolute. Links are not resolved: those of a mounted ConfigMap point
    to a folder that is gone after the next change."""
    if isinstance(value, list):
        return [_anchored(entry, folder) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: entry
        if key in ("labels", "rename")  # their keys are names, not options
        else str(folder / Path(entry).expanduser())
        if _names_file(key) and isinstance(entry, str) and entry and not entry.startswith(CREDENTIAL)
        else _anchored(entry, folder)
        for key, entry in value.items()
    }


def _names_file(key: str) -> bool:
    return key in ("recording", "kubeconfig", "file") or key.endswith("_file")


def load_policy(path: Path, registry: Registry) -> Policy:
    """One policy file. Raises ConfigError for all that is wrong with it, a line each."""
    name, file, mistakes = str(path), read_toml(path), Mistakes()
    mistakes.add(_wrong_keys(file, name))
    if not file or any(_meant_subject(key) == "pool" for key in file):
        mistakes.raised()
    file = {_meant_subject(key) or key: value for key, value in file.items()}
    if "job" in file and isinstance(file.get("replicas"), dict):
        file["replicas"] = {"min": 0, **file["replicas"]}  # without work there are no Jobs
    strategies = None
    with mistakes.collected():
        raw = convert({key: value for key, value in file.items() if key in POLICY_KEYS}, _PolicyFile, name)
    with mistakes.collected():
        strategies = records(tables_of(file, "strategy"), registry, name, "strategy")
    with mistakes.collected():
        limits = records(tables_of(file, "limit"), registry, name, "limit")
    if mistakes.found or strategies is None:
        mistakes.add(futile(_decodable_parts(file, strategies), name))
        mistakes.raised()
    job = None if raw.job is UNSET else _job_set(raw.job, path)
    policy = Policy(
        name=path.stem,
        replicas=raw.replicas,
        strategies=strategies,
        limits=limits,
        workload=job.target if job else None if raw.workload is UNSET else raw.workload,
        select=None if raw.select is UNSET else raw.select,
        job=job,
        mode=raw.mode,
        interval=raw.interval,
        jitter=raw.jitter,
        max_age=raw.max_age,
        trust=raw.trust,
        combine=raw.combine,
        freeze=raw.freeze,
        foreign=raw.foreign,
    )
    for key, decoded in (("strategy", strategies), ("limit", limits)):
        for index, record in enumerate(decoded):
            mistakes.add(_check_under(policy, record, name, f"{key}[{index}]"))
    with mistakes.collected():
        check_wakes(policy, name)
    mistakes.add(futile(parts_of(policy), name))
    mistakes.raised()
    return policy


def _decodable_parts(file: Mapping[str, Any], strategies: tuple[Strategy, ...] | None) -> PolicyParts:
    """The tables of a file that decode without mistakes; None for the others."""
    parts: dict[str, Any] = {"strategies": strategies}
    for key, kind in (("workload", Target), ("select", Select), ("replicas", Bounds), ("trust", Trust)):
        with Mistakes().collected():
            parts[key] = convert(file[key], kind, "") if key in file else None
    return PolicyParts(**parts)


def _wrong_keys(file: Mapping[str, Any], name: str) -> Iterator[ConfigError]:
    """Unknown keys, and a file that does not say which workloads it is about."""
    for key in file:
        if key not in POLICY_KEYS:
            beside = key == "moves"
            problem = "must stand beside [pool], does not" if beside else f"no such key{nearest(key[:60], _KNOWN)}"
            yield ConfigError(name, one_line(key), problem)
    if not _ABOUT & file.keys() and not any(map(_meant_subject, file)):
        is_ = "none of them is" if file else "the file is empty"
        yield ConfigError(name, "workload", f"must be given, or else [select], [job] or [pool], {is_}")


def _meant_subject(key: str) -> str:
    """The table that a misspelt key stands for: pool, workload, select or job; empty if none of these."""
    guess = "" if key in _KNOWN else nearest(key[:60], _KNOWN)
    return next((subject for subject in ("pool", *_ABOUT) if f'"{subject}"' in guess), "")


def _check_under(policy: Policy, record: Strategy, file: str, key: str) -> list[ConfigError]:
    """The options that contradict the rest of the policy."""
    try:
        answer = record.check(policy)
        problems = [answer] if isinstance(answer, str) else [*(answer or ())]
        parts = [problem.partition(": ") for problem in problems]
    except Exception as error:
        return [ConfigError(file, key, f"must be something its type can check, raised {raised(error)}")]
    return [
        ConfigError(file, f"{key}.{option}" if text else key, one_line(text or option)) for option, _, text in parts
    ]


def _job_set(table: _JobTable, path: Path) -> JobSet:
    """A job set with its template, which may be a file beside the policy's."""
    file, key, manifest = str(path), "job.template", table.template
    try:
        if table.template_file is not UNSET:
            beside = path.parent / Path(table.template_file).expanduser()
            text = read_text(beside)
            file, key = str(beside), ""
            manifest = parse(text)
        checked = check(manifest, table.namespace)
    except TemplateError as error:
        raise ConfigError(file, ".".join(filter(None, (key, error.key))), error.problem) from None
    return JobSet(
        table.namespace,
        table.name,
        checked,
        hash_of(checked),
        table.successful_history,
        table.failed_history,
        table.rollout,
    )


def policy_files(folder: Path) -> list[Path]:
    """The policy files of a folder, by name. A folder that is missing or unreadable raises ConfigError."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml" and not path.name.startswith("."))
    except OSError as error:
        raise ConfigError(str(folder), "", f"must be a readable folder, is not: {error.strerror}") from None
    except ValueError as error:  # a character that no path may have
        raise ConfigError(one_line(str(folder)), "", f"must be a folder's path, is not: {error}") from None


def template_files(folder: Path) -> list[Path]:
    """The files beside the policies that may be templates: a policy changes when its template does."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml", ".json"))


def load_policies(folder: Path, registry: Registry) -> tuple[list[Policy], list[ConfigError]]:
    """Every policy of a folder that is about workloads, and a ConfigError for every file that is wrong or clashes with
    another."""
    policies: list[Policy] = []
    errors: list[ConfigError] = []
    for path in policy_files(folder):
        try:
            if "pool" in read_toml(path):
                continue
            policies.append(load_policy(path, registry))
        except ConfigError as error:
            errors += error.each
    return policies, errors + clashes(folder, policies)
