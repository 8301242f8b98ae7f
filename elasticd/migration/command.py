"""The command `import`: objects of other autoscalers, live or in files, become policies that observe.

Knows where objects are read and policies are written; what becomes of an object is the other modules'.
"""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import tomli
from msgspec.structs import replace

from elasticd.base.errors import ConfigError, UnavailableError, near
from elasticd.base.files import replacing
from elasticd.base.shapes import moment
from elasticd.base.text import counted, one_line, plain
from elasticd.base.units import go_seconds
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.config import DEFAULT_CONFIG, Settings, load_settings
from elasticd.config.files import read_text
from elasticd.config.policies import decode_policy
from elasticd.journal import read
from elasticd.migration.compare import compared
from elasticd.migration.comparison import comparison_table
from elasticd.migration.cronhpa import cron_policy
from elasticd.migration.documents import KINDS, Document, Kind, is_of, read_documents
from elasticd.migration.hpa import FLAGS, Controller, controller_of, hpa_policy
from elasticd.migration.keda import PROMETHEUS, scaled_job_policy, scaled_object_policy
from elasticd.migration.kube_scheduler import scheduler_policies
from elasticd.migration.policy import Imported, sources_text
from elasticd.migration.takeover import Site, hand_back, take_over
from elasticd.migration.vpa import vpa_policy
from elasticd.model.kinds import BUILT_IN
from elasticd.model.reports import StatusReport
from elasticd.model.workload import Ref
from elasticd.registry import Registry, discover
from elasticd.sources.recorded.export import time_of_argument
from elasticd.ui import pauses, remote
from elasticd.ui.journaled import workloads
from elasticd.ui.names import workload_of
from elasticd.ui.terminal import show

IMPORT = (
    "Write policies that decide as HPAs, ScaledObjects, ScaledJobs, CronHPAs or VPAs do, or place pods as a "
    "kube-scheduler with this configuration does, to observe beside them."
)
SOURCES = "sources.txt"
"""The file beside policies with the sources that they need. Not TOML by name, or it would be read as a policy."""


def takes_import(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd import`."""
    add = parser.add_argument
    add("kind", choices=tuple(KINDS), help="of the objects")
    add(
        "names", metavar="FILE or NAME", nargs="*", help="files of YAML or JSON, - for stdin; with -n: names of objects"
    )
    text = "read the cluster's objects of this namespace: all of them, or those of these names"
    add("-n", "--namespace", nargs="+", default=[], metavar=("NAMESPACE", "NAME"), help=text)
    add("--all-namespaces", action="store_true", help="read all of the cluster's objects")
    add("--out", type=Path, metavar="DIR", help=f"write a policy each, and {SOURCES}, into this folder; default: print")
    add("--force", action="store_true", help="write over files that are there")
    add("--config", type=Path, help=f"whose [cluster] is read; default: {DEFAULT_CONFIG}, or else the kubeconfig")
    text = f"a flag of the kube-controller-manager that is not at its default; one of {', '.join(FLAGS)}"
    add("--controller", action="append", default=[], metavar="FLAG=VALUE", help=text)
    add("--rules", choices=("current", "1.20"), help="whose HPA it is; default: by the cluster's version, else current")
    add("--zone", default="UTC", help="the time zone of the CronHPA controller's process; default: UTC")
    add("--prometheus", default=PROMETHEUS, metavar="URL", help=f"where exporters' metrics are; default: {PROMETHEUS}")


def run_import(arguments: argparse.Namespace) -> int:
    """Import the objects that the arguments name. Returns the exit code."""
    # argparse takes no more of FILE after an option.
    arguments.namespace, arguments.names = "".join(arguments.namespace[:1]), arguments.names + arguments.namespace[1:]
    documents, version = _read(arguments)
    kind = KINDS[arguments.kind]
    objects = [document for document in documents if is_of(document, kind)]
    if not objects:
        raise UnavailableError(f"{_place(arguments)}: must have a {kind.name}, has none")
    convert = _converter(arguments, documents, version)
    registry, policies = discover(), list[Imported]()
    for document in objects:
        if owner := _owner(document):
            print(plain(f"{document.file}: belongs to {owner}, which is imported instead of it"), file=sys.stderr)
            continue
        policies += [policy for imported in convert(document) if (policy := _checked(imported, registry)) is not None]
    if not policies:
        raise UnavailableError(f"{_place(arguments)}: no policy could be made of {counted(len(objects), 'object')}")
    if arguments.out is None:
        sys.stdout.write(plain("\n".join(imported.text for imported in policies)))
        return 0
    _write(arguments.out, policies, force=arguments.force)
    return 0


def _owner(document: Document) -> str:
    """The ScaledObject that an HPA is made of; empty: none."""
    meta = document.table.get("metadata")
    owners = (meta.get("ownerReferences") if isinstance(meta, dict) else None) or ()
    names = [owner.get("name") for owner in owners if isinstance(owner, dict) and owner.get("kind") == "ScaledObject"]
    return f"ScaledObject {one_line(str(names[0]))}" if names else ""


def _place(arguments: argparse.Namespace) -> str:
    if _is_live(arguments):
        return f"namespace {one_line(arguments.namespace)}" if arguments.namespace else "the cluster"
    return ", ".join(map(one_line, arguments.names))


def _is_live(arguments: argparse.Namespace) -> bool:
    if arguments.kind == "kubescheduler" and (arguments.namespace or arguments.all_namespaces):
        key = "-n" if arguments.namespace else "--all-namespaces"
        raise ConfigError("", key, "must not be given for kubescheduler, whose configuration is a file, is")
    if arguments.namespace and arguments.all_namespaces:
        raise ConfigError("", "-n", "must not stand beside --all-namespaces, does")
    if arguments.all_namespaces and arguments.names:
        raise ConfigError("", "FILE", "must not stand beside --all-namespaces, does")
    if not arguments.names and not arguments.namespace and not arguments.all_namespaces:
        raise ConfigError("", "FILE", "must be given, or - or -n NAMESPACE or --all-namespaces, is missing")
    return bool(arguments.all_namespaces or arguments.namespace)


def _read(arguments: argparse.Namespace) -> tuple[list[Document], str]:
    """The objects, and the version of the cluster that has them; empty: they are from files."""
    if _is_live(arguments):
        return asyncio.run(_read_cluster(arguments))
    documents: list[Document] = []
    for name in arguments.names:
        text = sys.stdin.read() if name == "-" else read_text(Path(name))
        documents += read_documents(text, "stdin" if name == "-" else name)
    return documents, ""


def cluster_of(config: Path | None) -> Kubernetes:
    """The cluster of an elasticd.toml, or that of the kubeconfig where there is no such file."""
    if config is None and not DEFAULT_CONFIG.exists():
        return Kubernetes()
    cluster = load_settings(config or DEFAULT_CONFIG, discover()).cluster
    if not isinstance(cluster, Kubernetes):
        raise ConfigError(str(config or DEFAULT_CONFIG), "cluster.type", "must be kubernetes, is simulated")
    return cluster


async def _read_cluster(arguments: argparse.Namespace) -> tuple[list[Document], str]:
    kinds = [KINDS[arguments.kind]]
    if arguments.kind == "cronhpa":
        kinds.append(KINDS["hpa"])  # which it may scale
    documents: list[Document] = []
    async with cluster_of(arguments.config).objects() as objects:
        for kind in kinds:
            resource = await objects.resource(kind.served)
            version = f"{resource.group.removeprefix('/apis/')}"
            try:
                found = await objects.list(resource, arguments.namespace)
            except ApiError as error:
                raise UnavailableError(f"{objects.host}: {kind.name}s cannot be listed: {error}") from None
            for item in found:
                table = {"apiVersion": version, "kind": kind.name, **item}
                name = f"{kind.name} {table['metadata'].get('namespace', '')}/{table['metadata'].get('name', '')}"
                documents.append(Document(name, table))
        if missing := {*arguments.names} - {document.table["metadata"].get("name") for document in documents}:
            names = ", ".join(map(one_line, sorted(missing)))
            raise UnavailableError(
                f"namespace {one_line(arguments.namespace)}: has no {KINDS[arguments.kind].name} {names}"
            )
        kept = [document for document in documents if _is_named(document, kinds[0], arguments.names)]
        return kept, objects.version


def _is_named(document: Document, kind: Kind, names: Sequence[str]) -> bool:
    return not names or document.table["kind"] != kind.name or document.table["metadata"].get("name") in names


Converter = Callable[[Document], list[Imported]]


def _converter(arguments: argparse.Namespace, documents: Sequence[Document], version: str) -> Converter:
    """What makes policies of one object: one, but of a KubeSchedulerConfiguration one for each profile."""
    if arguments.kind == "kubescheduler":
        return lambda document: scheduler_policies(document.table, document.file)
    namespace = arguments.namespace or "default"
    controller = _controller(arguments, version)
    convert: dict[str, Callable[..., Imported]] = {
        "hpa": partial(hpa_policy, controller=controller),
        "scaledobject": partial(scaled_object_policy, controller=controller, prometheus=arguments.prometheus),
        "scaledjob": partial(scaled_job_policy, controller=controller, prometheus=arguments.prometheus),
        "vpa": vpa_policy,
    }
    if arguments.kind == "cronhpa":
        year = time.gmtime().tm_year
        hpas = _hpas(documents, namespace)
        convert["cronhpa"] = partial(cron_policy, zone=arguments.zone, years=(year, year + 1), hpas=hpas)
    one = convert[arguments.kind]
    return lambda document: [one(document.table, document.file, namespace)]


def _controller(arguments: argparse.Namespace, version: str) -> Controller:
    match = re.match(r"v?1\.(\d+)", version)
    old = "1.20" if match and int(match[1]) <= 20 else "current"
    try:
        return controller_of(arguments.controller, arguments.rules or old)
    except ValueError as error:
        raise ConfigError("", "--controller", str(error)) from None


def _hpas(documents: Iterable[Document], namespace: str) -> Mapping[str, Any]:
    hpas = [document.table for document in documents if is_of(document, KINDS["hpa"])]
    metas = [(hpa.get("metadata") or {}, hpa) for hpa in hpas]
    return {f"{meta.get('namespace', namespace)}/{meta.get('name')}": hpa for meta, hpa in metas}


def _checked(imported: Imported, registry: Registry) -> Imported | None:
    """The same if its policy is one, with its notes printed; None if not, with the reason."""
    about = imported.about
    for note in imported.notes:
        print(plain(f"{about}: {one_line(note)}"), file=sys.stderr)
    if imported.table is None:
        print(plain(f"{about}: no policy is written"), file=sys.stderr)
        return None
    try:
        decode_policy(Path(f"{imported.policy}.toml"), tomli.loads(imported.text), registry)
    except ConfigError as error:
        for mistake in error.each:
            print(plain(f"{about}: no policy is written: {mistake.key}: {mistake.problem}"), file=sys.stderr)
        return None
    return imported


def _write(folder: Path, policies: Sequence[Imported], *, force: bool) -> None:
    files = {f"{imported.policy}.toml": imported.text for imported in policies}
    if sources := sources_text(table for imported in policies for table in imported.sources):
        head = f"# To be appended to elasticd.toml: cat {SOURCES} >> elasticd.toml\n"
        head += "# Where it has no [[source]] yet, write resource-metrics there too, which is the default.\n"
        files[SOURCES] = head + sources
    try:
        folder.mkdir(parents=True, exist_ok=True)
        to_write = {name: text for name, text in files.items() if not _has(folder / name, text)}
        if not force and (there := sorted(name for name in to_write if (folder / name).exists())):
            raise ConfigError(str(folder / there[0]), "", "must not be there yet, is: --force writes over it")
        for name, text in to_write.items():
            with replacing(folder / name, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UnavailableError(f"{folder}: must be writable, is not: {error.strerror}") from None
    print(f"{folder}: {counted(len(policies), 'policy')}{f', and {SOURCES}' if SOURCES in files else ''}")


def _has(path: Path, text: str) -> bool:
    """Whether a file is there and has this text, as a run that was killed has left it. Raises OSError."""
    return path.is_file() and path.read_bytes() == text.encode()


TAKEOVER = "Let elasticd scale a workload in place of its HPA or ScaledObject, or with --back the other way round."


def takes_takeover(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd takeover`."""
    add = parser.add_argument
    add("workload", metavar="NAMESPACE/KIND/NAME", nargs="+", help="or KIND/NAME with -n, as deploy/web")
    add("-n", "--namespace", default="", help="where NAMESPACE is left out")
    add("--back", action="store_true", help="let the HPA or ScaledObject scale it again, as it did before")
    add("--patience", type=float, default=120, metavar="SECONDS", help="for one step; default: 120")
    add("--kubeconfig", default="", help="by which the cluster is changed; default: that of elasticd.toml")
    add("--config", type=Path, default=DEFAULT_CONFIG, help=f"default: {DEFAULT_CONFIG}")


def run_takeover(arguments: argparse.Namespace) -> int:
    """Let a workload change hands. Returns the exit code."""
    if not arguments.patience > 0:
        raise ConfigError("", "--patience", f"must be > 0, is {arguments.patience:g}")
    cluster, settings = _cluster_and_settings(arguments)
    status = partial(remote.status, settings.http)
    ref = _workload_of(arguments, status())

    async def change_hands() -> str:
        async with cluster.objects() as objects:
            site = Site(ref, objects, status, arguments.patience, _tell)
            return await (hand_back if arguments.back else take_over)(site)

    print(plain(asyncio.run(change_hands())))
    return 0


def _tell(step: str) -> None:
    print(plain(step), file=sys.stderr, flush=True)


COMPARE = "Compare what autoscalers did with what policies in shadow would have done, from the journal."


def takes_compare(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd compare`."""
    add = parser.add_argument
    add("workload", metavar="NAMESPACE/KIND/NAME", nargs="*", help="or KIND/NAME with -n; default: all")
    add("-n", "--namespace", default="", help="where NAMESPACE is left out")
    text = "as 03:12, -2h, or 2026-03-02T08:00:00Z; default: the oldest in the journal"
    add("--from", type=time_of_argument, metavar="TIME", dest="begin", default=-inf, help=text)
    add("--config", type=Path, default=DEFAULT_CONFIG, help=f"default: {DEFAULT_CONFIG}")
    add("--state", type=Path, help="the journal's folder, instead of the config's")
    add("--json", action="store_true", help="for a machine")


def run_compare(arguments: argparse.Namespace) -> int:
    """Print what was and what would have been. Returns the exit code."""
    folder: Path = arguments.state or load_settings(arguments.config, discover()).state
    if not folder.is_dir():
        raise UnavailableError(f"{folder}: must be the daemon's state folder, is not there")
    named = ""
    if arguments.workload:
        named = workload_of(arguments.workload, arguments.namespace, partial(workloads, folder))
    comparisons = compared(read(folder), arguments.begin, named)
    if not comparisons:
        what = f"about {one_line(named)}" if named else "of a policy in shadow"
        raise UnavailableError(f"{folder}: the journal must have decisions {what}, has none")
    return show(arguments, comparisons, comparison_table(comparisons))


PAUSE = "Keep the count of a workload, or of all that a policy governs, from going up, down or either way."
RESUME = "End what `pause` began, before its time is over."


def takes_pause(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd pause`."""
    takes_resume(parser)
    add = parser.add_argument
    add("--direction", choices=("up", "down", "both"), default="both", help="that is paused; default: both")
    add("--for", dest="seconds", default="", metavar="DURATION", help="as 30m or 2h; default: until it is resumed")
    add("--why", default="", metavar="TEXT", help="what explanations say")


def takes_resume(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd resume`."""
    add = parser.add_argument
    add("workload", metavar="NAMESPACE/KIND/NAME", nargs="*", help="or KIND/NAME with -n, as deploy/web")
    add("-n", "--namespace", default="", help="where NAMESPACE is left out")
    add("--policy", default="", help="all workloads that this policy governs now, in place of one")
    add("--kubeconfig", default="", help="by which the cluster is changed; default: that of elasticd.toml")
    add("--config", type=Path, default=DEFAULT_CONFIG, help=f"default: {DEFAULT_CONFIG}")


def run_pause(arguments: argparse.Namespace) -> int:
    """Pause workloads. Returns the exit code."""
    seconds = go_seconds(arguments.seconds) if arguments.seconds else 0.0
    if arguments.seconds and (not seconds > 0 or moment(time.time() + seconds) is None):
        raise ConfigError("", "--for", f'must be a duration such as 30m or 2h, is "{one_line(arguments.seconds)}"')
    until = time.time() + seconds if arguments.seconds else None
    return _annotate_pause(arguments, pauses.note(arguments.direction, until, arguments.why))


def run_resume(arguments: argparse.Namespace) -> int:
    """End pauses. Returns the exit code."""
    return _annotate_pause(arguments, None)


def _annotate_pause(arguments: argparse.Namespace, text: str | None) -> int:
    if bool(arguments.workload) == bool(arguments.policy):
        problem = "must be given, or else --policy, " + ("both are" if arguments.policy else "neither is")
        raise ConfigError("", "WORKLOAD", problem)
    cluster, settings = _cluster_and_settings(arguments)
    governing = pauses.GoverningPolicies(settings)
    name = workload_of(arguments.workload, arguments.namespace, governing.refs) if arguments.workload else ""
    done, failed = pauses.annotate(cluster, governing, text, workload=name, policy=arguments.policy)
    for line in done:
        print(plain(line))
    if failed:
        raise UnavailableError("\n".join(failed))
    return 0


def _cluster_and_settings(arguments: argparse.Namespace) -> tuple[Kubernetes, Settings]:
    """The cluster of the settings, as a person reaches it, and the settings."""
    settings = load_settings(arguments.config, discover())
    if not isinstance(settings.cluster, Kubernetes):
        raise ConfigError(str(arguments.config), "cluster.type", "must be kubernetes, is simulated")
    return replace(settings.cluster, kubeconfig=arguments.kubeconfig or settings.cluster.kubeconfig), settings


def _workload_of(arguments: argparse.Namespace, status: StatusReport) -> Ref:
    """The workload that the arguments name, of those that the daemon has decided about; the way back is open to any of
    Kubernetes' own kinds, as its policy may have been removed."""
    refs = {str(decision.workload): decision.workload for decision in status.decisions}
    name = workload_of(arguments.workload, arguments.namespace, lambda: refs)
    space, kind, own_name = name.split("/")
    versions = [version for version, built_in in BUILT_IN if built_in == kind] if arguments.back else []
    if name not in refs and not versions:
        raise UnavailableError(f"{one_line(name)}: must have a policy that has decided, has none{near(name, refs)}")
    return refs.get(name) or Ref(space, kind, own_name, versions[0])


COMMANDS = (
    ("compare", run_compare, COMPARE, takes_compare),
    ("pause", run_pause, PAUSE, takes_pause),
    ("resume", run_resume, RESUME, takes_resume),
    ("import", run_import, IMPORT, takes_import),
    ("takeover", run_takeover, TAKEOVER, takes_takeover),
)
"""The name of each command, what runs it, what it does, and what adds its arguments."""
