"""The commands `pause` and `resume`: a freeze annotation at workloads, with until when, who and why.

The daemon reads it as one that a person writes by hand, so it survives the daemon, and every daemon sees it. Knows the
annotation, and who governs a workload; knows nothing of what the annotation does to a decision.
"""

import asyncio
import getpass
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from elasticd.base.errors import SeveralError, UnavailableError, near
from elasticd.base.shapes import moment
from elasticd.base.text import one_line
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.kubernetes.objects import Objects
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.config import Settings, read_policies
from elasticd.decision.workload.vetoes import BY, FREEZE, UNTIL
from elasticd.kit.handover import FENCE
from elasticd.model.jobs import JOB_KIND
from elasticd.model.kinds import BUILT_IN
from elasticd.model.policy import Policy, Select
from elasticd.model.records import Decision
from elasticd.model.workload import Ref
from elasticd.registry import discover
from elasticd.ui import remote


class GoverningPolicies:
    """Which policies govern which workloads, by what the daemon decided, if one answers, and by the files."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.policies
        self._decisions: tuple[Decision, ...] = ()
        with suppress(UnavailableError):  # an annotation needs no daemon
            self._decisions = remote.status(settings.http).decisions
        policies, self._mistakes = read_policies(settings.policies, discover())
        self._policies = [policy for policy in policies if isinstance(policy, Policy)]

    def refs(self) -> dict[str, Ref]:
        """The workloads that were decided about or that a policy names, as NAMESPACE/KIND/NAME."""
        named = [policy.workload.ref for policy in self._policies if policy.workload is not None]
        return {str(ref): ref for ref in (*named, *(decision.workload for decision in self._decisions))}

    def api_versions(self, kind: str) -> set[str]:
        """Those that policies select workloads of this kind in."""
        selects = [policy.select for policy in self._policies if policy.select is not None]
        return {select.api_version for select in selects if select.kind == kind}

    def decided(self, policy: str) -> list[Ref]:
        """The workloads that a policy has decided about."""
        return sorted({decision.workload for decision in self._decisions if decision.policy == policy})

    def policy(self, name: str) -> Policy:
        """The policy about workloads in the file of this name. Raises ConfigError where that has mistakes, and
        UnavailableError where there is none."""
        for policy in self._policies:
            if policy.name == name:
                return policy
        if mistakes := [mistake for mistake in self._mistakes if Path(mistake.file).stem == name]:
            raise SeveralError(mistakes)
        must = f"must be a policy about workloads in {self._folder}, is not"
        raise UnavailableError(f"policy {one_line(name)}: {must}: name the workload instead, NAMESPACE/KIND/NAME")

    def why_none(self, ref: Ref, labels: Mapping[str, str]) -> str:
        """That no policy governs the workload, in a few words; empty: one does."""
        decided = any(decision.workload == ref for decision in self._decisions)
        if decided or any(policy.covers(ref, labels) for policy in self._policies):
            return ""
        doubt = f", but not all could be read: {one_line(str(self._mistakes[0]))}" if self._mistakes else ""
        return f"no policy governs it{doubt}"


def note(way: str, until: float | None, why: str) -> str:
    """The annotation of a pause in a direction, until a time (seconds since the epoch; None: until it is resumed)."""
    who = re.sub(r"[\s;]", "_", f"{getpass.getuser()}@{socket.gethostname()}")  # else it is not read as one word
    parts = [way, *([f"{UNTIL}{moment(until)}"] if until is not None else [])]
    parts += [f"{BY}{who}", *([one_line(why.replace(";", ","), 200)] if why else [])]
    return "; ".join(parts)


class Annotated(NamedTuple):
    """What was done, and what could not be, a line each."""

    done: list[str]
    failed: list[str]


def annotate(
    cluster: Kubernetes, governing: GoverningPolicies, text: str | None, *, workload: str = "", policy: str = ""
) -> Annotated:
    """Write the annotation at a workload, NAMESPACE/KIND/NAME, or at all that a policy governs, or remove it (None).

    Returns what was done and what could not be, a line each: each is tried, also where no server answers for another.
    Raises ConfigError where the policy has mistakes, UnavailableError where there is no such policy, or no server
    answers before the first workload."""
    return asyncio.run(_annotate(cluster, governing, text, workload, policy))


async def _annotate(
    cluster: Kubernetes, governing: GoverningPolicies, text: str | None, workload: str, policy: str
) -> Annotated:
    done, failed = list[str](), list[str]()
    async with cluster.objects() as objects:
        if workload:
            refs = [await _ref_of(objects, governing, workload)]
        else:
            refs = governing.decided(policy) or await _covered(objects, governing.policy(policy), cluster.namespaces)
        for ref in refs:
            try:
                done += await _annotate_one(objects, governing, ref, text)
            except UnavailableError as error:
                failed.append(str(error))
    return Annotated(done, failed)


async def _ref_of(objects: Objects, governing: GoverningPolicies, name: str) -> Ref:
    """The workload of this name, NAMESPACE/KIND/NAME; of a custom resource, the API server knows the apiVersion."""
    if ref := governing.refs().get(name):
        return ref
    namespace, word, own_name = name.split("/")
    built_in = [each for each in (*BUILT_IN, JOB_KIND) if each[1] == word]
    selected = [(api_version, word) for api_version in sorted(governing.api_versions(word))]
    kinds = built_in or selected or await objects.kinds_of(word)
    if not kinds:
        raise UnavailableError(f'{one_line(name)}: must be of a kind that can be scaled, "{one_line(word)}" is not')
    if len(kinds) > 1:
        several = ", ".join("/".join(kind) for kind in kinds)
        why = f"must be of one kind, may be any of {several}: use kubectl annotate, with {FREEZE}"
        raise UnavailableError(f"{one_line(name)}: {why}")
    api_version, kind = kinds[0]
    return Ref(namespace, kind, own_name, api_version)


async def _covered(objects: Objects, policy: Policy, namespaces: Sequence[str]) -> list[Ref]:
    """The workloads that a policy names or selects, of these namespaces (none: of all)."""
    if policy.workload is not None:
        return [policy.workload.ref]
    refs = [] if policy.select is None else await _selected(objects, policy.select, namespaces)
    if not refs:
        raise UnavailableError(f"policy {one_line(policy.name)}: must select a workload, selects none")
    return refs


async def _selected(objects: Objects, select: Select, namespaces: Sequence[str]) -> list[Ref]:
    resource, refs = await objects.resource([(select.api_version, select.kind)]), list[Ref]()
    for namespace in _searched(select, namespaces):
        try:
            items = await objects.list(resource, namespace)
        except ApiError as error:
            raise UnavailableError(f"{objects.host}: {resource.plural} cannot be listed: {error}") from None
        for meta in (item["metadata"] for item in items):
            ref = Ref(meta["namespace"], select.kind, meta["name"], select.api_version)
            if select.matches(ref, meta.get("labels") or {}):
                refs.append(ref)
    return sorted(refs)


def _searched(select: Select, namespaces: Sequence[str]) -> Iterable[str]:
    """The namespaces to list: those selected, of those that elasticd watches (none: all of them); "" is any."""
    if "*" in select.namespaces:
        return namespaces or ("",)
    return [each for each in dict.fromkeys(select.namespaces) if not namespaces or each in namespaces]


async def _annotate_one(objects: Objects, governing: GoverningPolicies, ref: Ref, text: str | None) -> list[str]:
    if (ref.api_version, ref.kind) == JOB_KIND:
        raise UnavailableError(f'{ref}: must be a workload, is a set of Jobs: set freeze = "both" in its policy')
    resource = await objects.resource([(ref.api_version, ref.kind)])
    body = {"metadata": {"annotations": {FREEZE: text}}}
    try:
        patched = await objects.patch(resource, ref.namespace, ref.name, body)
    except ApiError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            raise UnavailableError(f"{ref}: must be there, is not{near(str(ref), governing.refs())}") from None
        raise UnavailableError(f"{ref}: must be writable, is not: {error}") from None
    if text is None:
        fence = (patched["metadata"].get("annotations") or {}).get(FENCE)
        still = f"{ref}: it changes hands, and stands still until `elasticd takeover {ref}` has ended: {FENCE}: "
        return [f"{ref}: resumed", *([f"{still}{one_line(fence, 200)}"] if fence is not None else [])]
    why = governing.why_none(ref, patched["metadata"].get("labels") or {})
    return [f"{ref}: {text}", *([f"{ref}: {why}"] if why else [])]
