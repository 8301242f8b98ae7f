"""The command `takeover`: who scales a workload changes from its HPA or ScaledObject to elasticd, and back.

One writer at a time. Both ways begin with a fence, an annotation of the workload that makes elasticd hold, and go on
only when the daemon has decided with it: it begins no decision while an action of the one before is under way. Then the
autoscaler is stopped or restored, and the fence goes only when that was seen: by the HPA controller, or by the daemon.
Every step says how things shall be, so a run after one that was killed goes on where that was.

    takeover   fence, daemon holds | stop, controller has seen it | no fence: elasticd scales
    --back     fence, daemon holds | restore, daemon yields to it | no fence: the autoscaler scales

Where the autoscaler was deleted after a run that was killed, `takeover` only removes the fence. Where no policy acts on
the workload any more, nobody decides with the fence; --back goes on when the daemon that leads reports so much: none of
its policies in force acts on the workload, and nothing that it had begun about it is under way. Who begins to lead
later reads the autoscalers first.

Knows the steps and what each waits for; knows nothing of how a daemon decides.
"""

import asyncio
import getpass
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct

from elasticd.base.errors import UnavailableError
from elasticd.base.shapes import moment
from elasticd.base.text import one_line
from elasticd.cluster.kubernetes.objects import Object, Objects
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.cluster.kubernetes.watch.discovery import Resource
from elasticd.cluster.kubernetes.watch.store import to_autoscaler
from elasticd.cluster.kubernetes.wire.convert import annotations_that_count
from elasticd.cluster.kubernetes.wire.objects import WireAutoscaler, WorkloadMetadata
from elasticd.kit.handover import AUTOSCALER, FENCE, FENCED, STOPPED, TAKEN_BACK
from elasticd.kit.surge import SURGE
from elasticd.migration.documents import KINDS
from elasticd.model.policy import MOST
from elasticd.model.records import FOREIGN_OWNER, Decision
from elasticd.model.reports import StatusReport
from elasticd.model.workload import Ref, group_of

PAUSED = "autoscaling.keda.sh/paused"
"""The annotation by which KEDA deletes its HPA and leaves the count as it is."""

GITOPS = ("argocd", "flux", "kustomize-controller", "helm-controller", "fleet")
"""Parts of names of field managers that write again whatever others change."""

_WITHOUT_BEHAVIOR = ("autoscaling/v1", "autoscaling/v2beta1")
_REPEATS = 5


class Site(Struct, frozen=True):
    """What a takeover is about: the workload, the API server, the daemon's status, and how many seconds one step may
    take; `tell` is told each step, and between looks `every` seconds pass."""

    ref: Ref
    objects: Objects
    status: Callable[[], StatusReport]
    patience: float
    tell: Callable[[str], None]
    every: float = 0.2


class _Autoscaler(Struct, frozen=True):
    """The HPA or ScaledObject of a workload, as it was last read."""

    kind: str
    resource: Resource
    table: Object

    @property
    def name(self) -> str:
        return str(self.table["metadata"]["name"])

    @property
    def noted(self) -> bool:
        """Whether a takeover has stopped it, so that it is known what it was before."""
        return STOPPED in _annotations(self.table)

    @property
    def stopped(self) -> bool:
        """Whether it is as a takeover has left it; not where its manifest was applied again since."""
        return self.noted and (_is_paused if self.kind == "ScaledObject" else _is_stopped)(self.table)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


async def take_over(site: Site) -> str:
    """Let elasticd scale the workload, and say what holds then. Raises UnavailableError where it may not be, or a step
    does not come about; it can be run again."""
    workload, autoscaler = await _workload(site), await _find_autoscaler(site)
    fenced = is_fenced(workload)
    if autoscaler is None and fenced:
        return await _end_without(site)
    if autoscaler is None or (autoscaler.stopped and not fenced):
        return f"elasticd scales {site.ref} already: no other autoscaler does"
    _check_managers(site, workload, autoscaler)
    decision = _acting_decision(site)
    if not autoscaler.stopped and not fenced and not _yields(decision):
        raise UnavailableError(f"{site.ref}: elasticd must yield to it now (foreign.autoscalers), does not")
    _check_knows(site, decision)
    async with _telling_what_stays(site):
        mark = await _fence(site, f"takeover from {autoscaler}")
        await _decided(site, lambda decision: _has_seen(decision, mark), "holds")
        await _refuse_surge(site)
        await _stop(site, autoscaler)
        await _seen_stopped(site, autoscaler)
        await _unfence(site)
        decision = await _decided(site, lambda decision: not _holds(decision), "decides without a fence")
    return f"elasticd scales {site.ref}, {decision.current} -> {decision.replicas} replicas; {autoscaler} is stopped"


async def _end_without(site: Site) -> str:
    """End a takeover, or a way back, that was killed and whose autoscaler was deleted since."""
    _check_knows(site, _acting_decision(site))
    await _unfence(site)
    decision = await _decided(site, lambda decision: not _holds(decision), "decides without a fence")
    change = f"{decision.current} -> {decision.replicas} replicas"
    return f"elasticd scales {site.ref}, {change}; it was fenced still, and no other autoscaler is there"


async def hand_back(site: Site) -> str:
    """Let the autoscaler scale the workload again, as it did before. Raises as `take_over` does."""
    workload, autoscaler = await _workload(site), await _find_autoscaler(site)
    if autoscaler is None:
        fenced = is_fenced(workload)
        hint = f", and is fenced ({FENCE}): `elasticd takeover` without --back ends that" if fenced else ""
        raise UnavailableError(f"{site.ref}: must have an autoscaler to go back to, has none{hint}")
    if not autoscaler.noted and not is_fenced(workload):
        return f"{autoscaler} scales {site.ref} already"
    _check_managers(site, workload, autoscaler)
    _leading_status(site)
    # A daemon that has just begun to lead has decided nothing yet: that does not mean that no policy acts.
    # One that does not know what is needed holds with the fence as any other: that is when the way back is wanted.
    if await _decided_or_idle(site, lambda _: True, "has decided") is not None:
        _acting_decision(site)
    async with _telling_what_stays(site):
        acts = await _restore_fenced(site, autoscaler)
    return f"{autoscaler} scales {site.ref} again; {'elasticd yields to it' if acts else 'no policy acts on it'}"


async def _restore_fenced(site: Site, autoscaler: _Autoscaler) -> bool:
    """Restore the autoscaler while elasticd holds, and say whether a policy acts on the workload. A decision counts
    only if made with this fence: one from before the daemon led last may yield to what the autoscaler was then."""
    mark = await _fence(site, f"back to {autoscaler}")
    stopped = autoscaler.stopped and autoscaler.kind == KINDS["hpa"].name

    def holds(decision: Decision) -> bool:
        return _has_seen(decision, mark) and not (stopped and _yields(decision))

    def yields(decision: Decision) -> bool:
        return _has_seen(decision, mark) and _yields(decision)

    await _decided_or_idle(site, holds, "holds")
    await _refuse_surge(site)
    await _restore(site, autoscaler)
    decision = await _decided_or_idle(site, yields, f"yields to {autoscaler}")
    await _unfence(site)
    return decision is not None


@asynccontextmanager
async def _telling_what_stays(site: Site) -> AsyncIterator[None]:
    """Add to the error of a change that ends halfway what stays of it, and what ends that."""
    try:
        yield
    except UnavailableError as error:
        raise UnavailableError(f"{error}{await _what_stays(site)}") from None


async def _what_stays(site: Site) -> str:
    again = "run it again while a daemon leads; with --back the autoscaler scales it in the end"
    try:
        fenced, autoscaler = is_fenced(await _workload(site)), await _find_autoscaler(site)
    except UnavailableError:
        return f"; {site.ref} may stay fenced ({FENCE}): {again}"
    stays = [f"{site.ref} stays fenced ({FENCE})"] if fenced else []
    if autoscaler is not None and autoscaler.noted:
        stays.append(f"{autoscaler} stays stopped")
    return f"; {' and '.join(stays)}: {again}" if stays else ""


def is_fenced(workload: Object) -> bool:
    """Whether a takeover is under way. A fence that a rollback brought back is none, and is written anew."""
    meta = msgspec.json.decode(msgspec.json.encode(workload["metadata"]), type=WorkloadMetadata)
    return FENCE in annotations_that_count(meta)


def _annotations(table: Object) -> Mapping[str, str]:
    return table["metadata"].get("annotations") or {}


async def _workload(site: Site) -> Object:
    resource = await site.objects.resource([(site.ref.api_version, site.ref.kind)])
    return await _read(site, resource, site.ref.name)


async def _read(site: Site, resource: Resource, name: str) -> Object:
    try:
        return await site.objects.get(resource, site.ref.namespace, name)
    except ApiError as error:
        raise UnavailableError(f"{resource.plural} {name}: must be readable, is not: {error}") from None


async def _find_autoscaler(site: Site) -> _Autoscaler | None:
    """The one autoscaler of the workload: a ScaledObject before the HPA that KEDA makes of it."""
    found = await _of_kind(site, "scaledobject") or await _of_kind(site, "hpa")
    if len(found) > 1:
        names = ", ".join(map(str, found))
        raise UnavailableError(f"{site.ref}: must have one autoscaler, has {names}")
    owners = (found[0].table["metadata"].get("ownerReferences") or ()) if found else ()
    if any(owner.get("kind") == "ScaledObject" for owner in owners):
        raise UnavailableError(f"{found[0]}: must be stopped by its ScaledObject, which cannot be found")
    return found[0] if found else None


async def _of_kind(site: Site, kind: str) -> list[_Autoscaler]:
    about = KINDS[kind]
    try:
        resource = await site.objects.resource([pair for pair in about.served if pair[0] not in _WITHOUT_BEHAVIOR])
        tables = await site.objects.list(resource, site.ref.namespace)
    except ApiError as error:
        raise UnavailableError(f"{about.name}s: must be readable, are not: {error}") from None
    except UnavailableError:
        if kind == "scaledobject":  # the cluster has no KEDA
            return []
        raise
    return [_Autoscaler(about.name, resource, table) for table in tables if _is_about(table, site.ref)]


def _is_about(table: Object, ref: Ref) -> bool:
    target = table["spec"].get("scaleTargetRef") or {}
    kind, group = str(target.get("kind", "Deployment")), group_of(str(target.get("apiVersion", ref.api_version)))
    # Kubernetes takes a kind in lower case too.
    same = kind.lower(), target.get("name"), group
    return same == (ref.kind.lower(), ref.name, group_of(ref.api_version))


def _check_managers(site: Site, workload: Object, autoscaler: _Autoscaler) -> None:
    """Refuse while something writes the count, or the autoscaler, again from elsewhere."""
    for table, field in ((workload, "f:replicas"), (autoscaler.table, "")):
        for entry in table["metadata"].get("managedFields") or ():
            manager, spec = str(entry.get("manager", "")), (entry.get("fieldsV1") or {}).get("f:spec")
            owns = spec is not None and (not field or field in spec)
            if owns and any(part in manager.lower() for part in GITOPS):
                what = f"the count of {site.ref}" if field else str(autoscaler)
                why = "it would write it again: let it leave that alone first"
                raise UnavailableError(f"{what}: must not be owned by {one_line(manager)}, is: {why}")


def _acting_decision(site: Site) -> Decision:
    """The daemon's last decision about the workload. Refuse where it would not act."""
    decision = _latest(_leading_status(site), site.ref)
    if decision is None:
        raise UnavailableError(f"{site.ref}: must have a policy with mode act that has decided, has none")
    return decision


def _check_knows(site: Site, decision: Decision) -> None:
    """Refuse where elasticd would scale, and does not know what is needed."""
    if decision.blind or decision.failures:
        # What it says itself may be that it yields to the autoscaler.
        doubts = [each.message for each in decision.conditions if each.type == "ScalingActive" and not each.status]
        why = one_line((doubts or [decision.message])[0])
        raise UnavailableError(f"{site.ref}: elasticd must know what is needed, does not: {why}")


def _leading_status(site: Site) -> StatusReport:
    """The status of the daemon. Refuse where it would not act."""
    status = site.status()
    if status.dry_run or not status.leading:
        what = "has dry_run = true" if status.dry_run else "waits to lead: ask the one that does"
        raise UnavailableError(f"elasticd: must act, but {what}")
    return status


def _acting_decisions(status: StatusReport, ref: Ref) -> list[Decision]:
    """The last decisions of policies that act on the workload: one of each."""
    return [each for each in status.decisions if str(each.workload) == str(ref) and each.mode == "act"]


def _latest(status: StatusReport, ref: Ref) -> Decision | None:
    decisions = _acting_decisions(status, ref)
    return decisions[0] if len(decisions) == 1 else None


def _is_idle(status: StatusReport, ref: Ref, labels: Mapping[str, str]) -> bool:
    """Whether the daemon is known to scale the workload no longer: it leads, no policy in force that acts is about it,
    and nothing has not ended that was begun before. No decision alone tells nothing."""
    if not status.leading or status.dry_run or status.policies is None or status.under_way is None:
        return False
    acts = any(policy.mode == "act" and policy.may_govern(ref, labels) for policy in status.policies)
    begun = any(str(each) == str(ref) for each in status.under_way)
    return not (acts or begun or _acting_decisions(status, ref))


def _yields(decision: Decision) -> bool:
    """Whether the daemon leaves the count to an HPA, as it does to one that is half stopped."""
    reasons = {limit.reason for limit in decision.limits if limit.name == AUTOSCALER}
    return bool(reasons & {FOREIGN_OWNER, "HalfStopped"})


def _holds(decision: Decision) -> bool:
    return _yields(decision) or any(limit.name == FENCED for limit in decision.limits)


async def _fence(site: Site, verb: str) -> str:
    """Let elasticd hold, and return the text by which a decision tells that it was made with this fence: none is while
    a write of the one before is under way."""
    text = f"{verb} by {getpass.getuser()}@{socket.gethostname()}, since {moment(time.time())}"
    resource = await site.objects.resource([(site.ref.api_version, site.ref.kind)])

    def fenced(workload: Object) -> Object | None:
        return None if is_fenced(workload) else {"metadata": {"annotations": {FENCE: text}}}

    written = await _write(site, resource, site.ref.name, fenced, "fence")
    return str(_annotations(written)[FENCE])


async def _refuse_surge(site: Site) -> None:
    """Refuse while a pod of the workload is being moved, which changes its count."""
    if SURGE in _annotations(await _workload(site)):
        await _unfence(site)
        raise UnavailableError(f"{site.ref}: must have no pod that is being moved, has one: run it again later")


def _has_seen(decision: Decision, mark: str) -> bool:
    return any(limit.name == FENCED and one_line(mark, 200) in limit.message for limit in decision.limits)


async def _unfence(site: Site) -> None:
    resource = await site.objects.resource([(site.ref.api_version, site.ref.kind)])

    def unfenced(workload: Object) -> Object | None:
        return {"metadata": {"annotations": {FENCE: None}}} if FENCE in _annotations(workload) else None

    await _write(site, resource, site.ref.name, unfenced, "no fence")


async def _stop(site: Site, autoscaler: _Autoscaler) -> None:
    """Stop the autoscaler, and keep in an annotation of it what it was."""
    change = _stopped_object if autoscaler.kind == "ScaledObject" else _stopped_hpa
    await _write(site, autoscaler.resource, autoscaler.name, change, f"{autoscaler} is stopped")


def _is_stopped(hpa: Object) -> bool:
    return to_autoscaler(msgspec.convert(hpa, WireAutoscaler)).stopped


def _is_paused(scaled: Object) -> bool:
    return _annotations(scaled).get(PAUSED) == "true"


def _stopped_hpa(hpa: Object) -> Object | None:
    """Both directions disabled, and bounds that no count is outside of: the controller looks at bounds first."""
    if STOPPED in _annotations(hpa) and _is_stopped(hpa):
        return None
    disabled = {"selectPolicy": "Disabled"}
    return {
        "metadata": {"annotations": {STOPPED: msgspec.json.encode(_spec_before(hpa)).decode()}},
        "spec": {"minReplicas": 1, "maxReplicas": MOST, "behavior": {"scaleUp": disabled, "scaleDown": disabled}},
    }


def _spec_before(hpa: Object) -> dict[str, Any]:
    """What an HPA is without a takeover. One that was stopped: what it was before, but for what was applied since."""
    present = {key: hpa["spec"].get(key) for key in ("minReplicas", "maxReplicas", "behavior")}
    text = _annotations(hpa).get(STOPPED)
    if text is None:
        return present
    before: dict[str, Any] = msgspec.json.decode(text)
    least, most = present["minReplicas"] or 1, present["maxReplicas"]
    directions = (present["behavior"] or {}).values()
    disabled = any(rules and rules.get("selectPolicy") == "Disabled" for rules in directions)
    return {
        "minReplicas": before["minReplicas"] if (least, most) == (1, MOST) else least,
        "maxReplicas": before["maxReplicas"] if most == MOST else most,
        "behavior": before["behavior"] if disabled else present["behavior"],
    }


def _stopped_object(scaled: Object) -> Object | None:
    if STOPPED in _annotations(scaled) and _is_paused(scaled):
        return None
    noted = _annotations(scaled).get(STOPPED)
    kept = noted or msgspec.json.encode({PAUSED: _annotations(scaled).get(PAUSED)}).decode()
    return {"metadata": {"annotations": {STOPPED: kept, PAUSED: "true"}}}


async def _restore(site: Site, autoscaler: _Autoscaler) -> None:
    """Let the autoscaler be what it was."""
    await _write(site, autoscaler.resource, autoscaler.name, _restored, f"{autoscaler} is as it was")


def _restored(table: Object) -> Object | None:
    text = _annotations(table).get(STOPPED)
    if text is None:  # A command was killed: its stop, which may come late, is refused once there is a newer version.
        return {"metadata": {"annotations": {TAKEN_BACK: moment(time.time())}}}
    kept: dict[str, Any] = msgspec.json.decode(text)
    if PAUSED in kept:
        return {"metadata": {"annotations": {STOPPED: None, PAUSED: kept[PAUSED]}}}
    return {"metadata": {"annotations": {STOPPED: None}}, "spec": _spec_before(table)}


async def _seen_stopped(site: Site, autoscaler: _Autoscaler) -> None:
    """Wait until the autoscaler has seen that it is stopped, so that nothing it began before can still be written.

    The HPA controller works on one HPA at a time and writes a status only to the version that it has read. So its
    conditions are taken away: when they are there again, it has read what has been written since. KEDA says it itself.
    """
    if autoscaler.kind == "ScaledObject":
        await _until(site, lambda: _says_paused(site, autoscaler), f"{autoscaler} says that it is paused")
        return

    def without_conditions(hpa: Object) -> Object | None:
        return {"status": {"conditions": None}} if _conditions(hpa) else None

    await _write(site, autoscaler.resource, autoscaler.name, without_conditions, "", "status")
    await _until(site, lambda: _has_conditions(site, autoscaler), f"the controller has seen {autoscaler} stopped")


async def _says_paused(site: Site, autoscaler: _Autoscaler) -> bool:
    scaled = await _read(site, autoscaler.resource, autoscaler.name)
    return any(each.get("type") == "Paused" and each.get("status") == "True" for each in _conditions(scaled))


async def _has_conditions(site: Site, autoscaler: _Autoscaler) -> bool:
    return bool(_conditions(await _read(site, autoscaler.resource, autoscaler.name)))


def _conditions(table: Object) -> list[dict[str, Any]]:
    return (table.get("status") or {}).get("conditions") or []


async def _write(
    site: Site,
    resource: Resource,
    name: str,
    change: Callable[[Object], Object | None],
    step: str,
    subresource: str = "",
) -> Object:
    """Patch an object by what `change` makes of it as it is now (None: nothing is left to do), and nothing newer."""
    for _ in range(_REPEATS):
        table = await _read(site, resource, name)
        patch = change(table)
        if patch is None:
            return table
        version = {"resourceVersion": table["metadata"]["resourceVersion"]}
        body = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        try:
            written = await site.objects.patch(resource, site.ref.namespace, name, body, subresource)
        except ApiError as error:
            if error.code == 409 or error.lost:  # it changed, or may have been written: look again
                continue
            raise UnavailableError(f"{resource.plural} {name}: must be writable, is not: {error}") from None
        if step:
            site.tell(step)
        return written
    raise UnavailableError(f"{resource.plural} {name}: must be left alone for a moment, changed {_REPEATS} times")


async def _decided(site: Site, holds: Callable[[Decision], bool], what: str) -> Decision:
    """Wait for a decision of which something holds."""
    decisions: list[Decision] = []

    async def is_there() -> bool:
        decision = _latest(await asyncio.to_thread(site.status), site.ref)
        if decision is None or not holds(decision):
            return False
        decisions.append(decision)
        return True

    await _until(site, is_there, f"elasticd {what}")
    return decisions[-1]


async def _decided_or_idle(site: Site, holds: Callable[[Decision], bool], what: str) -> Decision | None:
    """Wait for a decision of which something holds, or until no policy acts on the workload: None."""
    decisions: list[Decision | None] = []

    async def is_there() -> bool:
        labels = (await _workload(site))["metadata"].get("labels") or {}
        status = await asyncio.to_thread(site.status)
        decision = _latest(status, site.ref)
        if decision is not None and holds(decision):
            decisions.append(decision)
        elif _is_idle(status, site.ref, labels):
            decisions.append(None)
        return bool(decisions)

    await _until(site, is_there, f"elasticd {what}, or no policy acts on it")
    return decisions[-1]


async def _until(site: Site, holds: Callable[[], Awaitable[bool]], what: str) -> None:
    end = time.monotonic() + site.patience
    while not await holds():
        if time.monotonic() > end:
            raise UnavailableError(f"{site.ref}: {what} must come within {site.patience:g} s, did not: run it again")
        await asyncio.sleep(site.every)
    site.tell(what)
