"""Decodes elasticd.toml into settings, or into one line for each mistake.

Knows the tables of elasticd.toml and how sources refer to each other; knows nothing of policies.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from elasticd.base.decode import convert, shared_fields
from elasticd.base.errors import ConfigError, Mistakes, NotYetError, nearest
from elasticd.base.secrets import CREDENTIAL, read_secret, secret_path
from elasticd.base.text import is_name, shown, unprintable
from elasticd.cluster.disruption import DisruptionSettings
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.simulated import Simulated
from elasticd.config.files import read_toml, tables_of
from elasticd.config.tables import no_such, typed
from elasticd.ports.source import JOURNAL, Source
from elasticd.registry import Registry
from elasticd.sources.bounds import MOST_SAMPLES
from elasticd.sources.settled import StuckError, guarded, settled
from elasticd.telemetry.mqtt_publisher import PublisherSettings

CLUSTERS: Mapping[str, type[Kubernetes | Simulated]] = {"kubernetes": Kubernetes, "simulated": Simulated}


LEAST_TOKEN = 16
"""Characters of a token, at least: nobody guesses it."""


class HttpSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the status page, /metrics, probes and JSON are served, and to whom. Port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 9464
    token_file: Annotated[str, Meta(description="a file with the token that readers must send, or credential:NAME")] = (
        ""
    )
    token_review: Annotated[bool, Meta(description="the API server says whose token counts")] = False
    metrics_need_token: Annotated[bool, Meta(description="also /metrics needs a token")] = False

    def __post_init__(self) -> None:
        if self.metrics_need_token and not (self.token_file or self.token_review):
            raise ValueError("metrics_need_token: must be left out without token_file and token_review, is true")

    def token(self) -> str:
        """The token, read anew. Raises ConfigError."""
        token = read_secret(self.token_file).strip()
        if not token:
            raise NotYetError("", str(secret_path(self.token_file)), "must hold a token, is empty")
        if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            problem = f"must have at least {LEAST_TOKEN} characters of ASCII and no space, has {len(token)} characters"
            raise ConfigError("", str(secret_path(self.token_file)), problem)
        return token

    def examine(self) -> None:
        """Raises ConfigError where the token cannot be read."""
        if self.token_file:
            self.token()


class JournalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How much the journal keeps on disk: `segments` times `megabytes`. A file of `megabytes` is compressed."""

    megabytes: Annotated[float, Meta(gt=0)] = 16
    segments: Annotated[int, Meta(ge=2)] = 4


LONGEST = 24 * 366
"""Hours of virtual time: a year."""


class ScenarioSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How `elasticd simulate` plays the simulated cluster: for how long, from which time of day on, and with which
    policies, each a folder or a file that is tried by itself; none: the folder `policies`. The daemon ignores it.

    There are `seeds` runs, each with the next seed after the cluster's. `step`: seconds between rows of the output.
    `parts`: so many clusters with equal shares of the nodes and the workloads, played at the same time.
    """

    hours: Annotated[float, Meta(gt=0, le=LONGEST)] = 1.0
    start: Annotated[datetime, Meta(tz=True, description="RFC 3339 with its offset")] = datetime(2026, 1, 5, tzinfo=UTC)
    step: Annotated[float, Meta(ge=1, le=86400)] = 60.0
    seeds: Annotated[int, Meta(ge=1, le=1000)] = 1
    parts: Annotated[int, Meta(ge=1, le=1000)] = 1
    policies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.hours * 3600 < self.step:
            raise ValueError(f"hours: must be at least a step of {self.step:g} s, is {self.hours * 3600:g} s")


class _PlainSettings(Struct, frozen=True, kw_only=True):
    """What needs neither plugins nor the file's folder to be decoded."""

    dry_run: bool = False
    max_samples: Annotated[int, Meta(ge=1)] = MOST_SAMPLES
    http: HttpSettings = HttpSettings()
    journal: JournalSettings = JournalSettings()
    disruption: DisruptionSettings = DisruptionSettings()
    scenario: ScenarioSettings = ScenarioSettings()


class Settings(_PlainSettings, frozen=True, kw_only=True):
    """elasticd.toml, decoded. Relative paths in it are relative to its folder."""

    cluster: Kubernetes | Simulated
    sources: tuple[Source, ...]
    policies: Path
    state: Path
    outlet: PublisherSettings | None = None
    renamed: tuple[str, ...] = ()
    """A line for each table that has its old name, which works for one release more."""


class _SettingsFile(_PlainSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cluster: dict[str, Any] = {}
    source: list[dict[str, Any]] = []
    policies: str = "policies"
    state: str = "/var/lib/elasticd"
    outlet: dict[str, Any] | None = None


_USUAL = [{"type": "resource-metrics"}]
"""The sources if elasticd.toml names none."""

_RENAMED = {"broker": "disruption"}
"""Tables of elasticd.toml by their names in 0.1, which 0.2 refuses."""


def load_settings(path: Path, registry: Registry) -> Settings:
    """elasticd.toml. Raises ConfigError for all that is wrong with it, a line each."""
    name, folder, mistakes, outlet = str(path), path.absolute().parent, Mistakes(), None
    file, renamed = _with_new_names(read_toml(path), name)
    file = anchored(file, folder)
    file.setdefault("source", _USUAL)
    with mistakes.collected():
        raw = convert(file, _SettingsFile, name)
    with mistakes.collected():
        cluster = _cluster(file.get("cluster", {}), name)
    with mistakes.collected():
        sources = _sources(tables_of(file, "source"), registry, name)
    with mistakes.collected():
        if "outlet" in file:
            outlet = convert(file["outlet"], PublisherSettings, name, "outlet")
    mistakes.raised()
    if raw.http.token_review and isinstance(cluster, Simulated):
        problem = "must be left out with a simulated cluster, which knows no tokens, is true"
        raise ConfigError(name, "http.token_review", problem)
    return Settings(
        cluster=cluster,
        sources=sources,
        policies=folder / raw.policies,
        state=folder / raw.state,
        outlet=outlet,
        renamed=renamed,
        **shared_fields(raw, _PlainSettings),
    )


def named_policies(path: Path) -> Path | None:
    """The folder of policies by an elasticd.toml, whatever else is wrong with that; None: where it tells none, as where
    it misspells the key."""
    try:
        file = read_toml(path)
    except ConfigError:
        return None
    keys = _SettingsFile.__struct_fields__
    name = file.get("policies", _SettingsFile().policies)
    misspelt = any('"policies"' in nearest(key[:60], keys) for key in file if key not in keys)
    usable = isinstance(name, str) and not unprintable(name) and not misspelt
    return path.absolute().parent / name if usable else None


def examine(settings: Settings, file: str) -> list[ConfigError]:
    """Mistakes in the settings that only this machine shows: files that sources and publisher need and cannot use."""
    checks = [(f"source[{index}]", source.examine) for index, source in enumerate(settings.sources)]
    if settings.outlet is not None:
        checks.append(("outlet", settings.outlet.examine))
    checks.append(("http.token_file", settings.http.examine))
    errors: list[ConfigError] = []
    for key, ask in checks:
        try:
            guarded(ask, "", "")
        except StuckError:
            text = "the files that it names must be readable, are not: their mount does not answer"
            errors.append(StuckError(file, key, text))
        except ConfigError as error:
            errors.append(type(error)(file, key, str(error)))
    return errors


def _with_new_names(file: dict[str, Any], name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The tables by their present names, and a line for each that had its old one."""
    old_names = [old for old in _RENAMED if old in file]
    for old in old_names:
        if _RENAMED[old] in file:
            raise ConfigError(name, old, f"must be left out beside [{_RENAMED[old]}], its new name, is given")
    tables = {_RENAMED.get(key, key): table for key, table in file.items()}
    lines = [f"{name}: {old}: is called [{_RENAMED[old]}] now; 0.2 refuses the old name" for old in old_names]
    return tables, tuple(lines)


def _cluster(table: Any, file: str) -> Kubernetes | Simulated:
    kind = table.get("type", "kubernetes") if isinstance(table, dict) else "kubernetes"
    if not isinstance(kind, str) or kind not in CLUSTERS:
        raise ConfigError(file, "cluster.type", no_such(kind, CLUSTERS))
    return convert({"type": kind, **table} if isinstance(table, dict) else table, CLUSTERS[kind], file, "cluster")


def anchored(value: Any, folder: Path) -> Any:
    """The tables with relative paths of files made absolute. Links are not resolved: those of a mounted ConfigMap point
    to a folder that is gone after the next change."""
    if isinstance(value, list):
        return [anchored(entry, folder) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: entry
        if key in ("labels", "rename")  # their keys are names, not options
        else str(folder / Path(entry).expanduser())
        if _names_file(key) and isinstance(entry, str) and entry and not entry.startswith(CREDENTIAL)
        else anchored(entry, folder)
        for key, entry in value.items()
    }


def _names_file(key: str) -> bool:
    return key in ("recording", "kubeconfig", "file") or key.endswith("_file")


def _sources(tables: Sequence[dict[str, Any]], registry: Registry, file: str) -> tuple[Source, ...]:
    mistakes, sources = Mistakes(), list[Source]()
    for index, table in enumerate(tables):
        with mistakes.collected():
            key = f"source[{index}]"
            decode = partial(typed, table, registry.sources, registry, file, key)
            sources.append(settled(decode, file, key))
    mistakes.raised()
    for find in (_invalid_names, _same_labels, _unmet_references):
        mistakes.add(ConfigError(file, key, problem) for key, problem in find(sources))
    mistakes.raised()
    return tuple(sources)


def _invalid_names(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """Names of sources and of series that cannot be printed, or written in a policy."""
    for index, source in enumerate(sources):
        if not is_name(source.label):
            yield f"source[{index}].name", f"must be a name on one line, is {shown(source.label)}"
        for name in source.offers() or ():
            if not is_name(name):
                yield f"source[{index}]", f"must have series with a name on one line, has {shown(name)}"


def _same_labels(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """Duplicate labels: policies and reports refer to sources by them."""
    labels = [source.label for source in sources]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            yield f"source[{index}].name", f'must differ from that of source[{labels.index(label)}], is "{label}"'


def _unmet_references(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """Sources that are made of a source which does not exist or does not fit: one that is derived needs one with a
    past, one that reads another needs one that is not made of others itself."""
    labels = [source.label for source in sources]
    with_past = [source.label for source in sources if source.remembers] + [JOURNAL]
    alone = [source.label for source in sources if source.draws() is None and source.derives() is None]
    for index, source in enumerate(sources):
        for label, allowed, lacks in (
            (source.derives(), with_past, "a source without a past"),
            (source.draws(), alone, "a source made of another"),
        ):
            if label is not None and label not in allowed:
                dumb = f", {lacks}" if label in labels else ""
                yield f"source[{index}].of", f"{no_such(label, allowed)}{dumb}"
