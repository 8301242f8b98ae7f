"""Writes about one pod: puts it on a node, notes the node that is being made free for it, evicts it. Each once, if what
must hold of pod and node still does when its turn has come; and made known before the watch tells of it.

A pod is bound once: the API server refuses a second time, and one that is not the pod that was judged. It is evicted
through the eviction API, which keeps disruption budgets, and as it was read just before, so that of two daemons only
one does it; where others must be ready when it goes, these are read just before too. A write is repeated only if
nothing was written, and read back if that is unknown. Knows how the server says no; knows nothing of why a pod goes
where, or of who shall go.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import NODES, PODS, Discovery
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.wire.convert import controller_of, pod_labels, to_node
from elasticd.cluster.kubernetes.wire.objects import WireList, WireNode, WirePod
from elasticd.cluster.kubernetes.write.answers import (
    NOT_LEADING,
    READ_BACK_AFTER,
    conflict,
    failed,
    other_uid,
    refused_by,
)
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.cluster.kubernetes.write.controllers import Controllers
from elasticd.cluster.kubernetes.write.late_evictions import LateEvictions, void_evictions
from elasticd.kit.evictability import sparing_annotation
from elasticd.kit.node_table import needed, whole
from elasticd.model.actions import (
    GIVES_WAY,
    OUTDATED,
    Announce,
    Answer,
    Bind,
    Evict,
    Nominate,
    Ready,
    TryEvict,
    outdated,
)
from elasticd.model.moves import is_copy
from elasticd.model.pod_spec import Taint
from elasticd.model.workload import Node, Pod, Ref, reasons_to_leave

TRIES = 4
"""Looks at a pod that keeps changing, as one does that is just starting, before it is left for now."""

JUDGED = 2.0
"""Seconds for which an eviction may wait for its turn: what it was judged by may be old then. One that would wait
longer takes no turn from others, and is judged anew."""

FRESH = 5.0
"""Seconds that reading whether others are ready may take, or it is judged anew: the daemon may have been suspended."""

OTHERS_NOT_READY = "OthersNotReady"
"""The reason why a pod is not evicted: too few of those that do its work are ready."""

GONE = Answer("done", 404, "it was gone already", "NotFound")
TERMINATING = Answer("done", 0, "it is being deleted already", "Terminating")
_DONE = Answer("done", 201)
_REPEATS = 3
_SEVERAL = "more than one PodDisruptionBudget"
_BUDGET = "DisruptionBudget"
_POD, _PODS = msgspec.json.Decoder(WirePod), msgspec.json.Decoder(WireList[WirePod])
_NODES = msgspec.json.Decoder(WireList[WireNode])


class PodState(Struct, frozen=True):
    """The fields of a pod that a write depends on, as the API server has them now, and its JSON (`body`)."""

    uid: str
    version: str
    node: str
    deleted: bool
    phase: str
    annotations: dict[str, str]
    labels: dict[str, str]
    body: bytes
    controller: tuple[str, str, str]
    """Its kind (see `controller_kind`), name and UID; empty where it has none."""
    ready: bool = False
    graceless: bool = False
    """Whether the API server, when asked to delete it, does so at once: its containers may still run."""


class _Eviction(Struct):
    """One eviction that was asked for, and what is known of it so far."""

    action: Evict
    version: str
    """Of the API of its body."""
    allowed: Allowed
    in_time: Allowed
    """As `allowed`, and only until it is to be judged anew."""
    dry_run: bool
    unanswered: str | None = None
    """UID of the pod's controller when a request had no answer, empty for none; None: each had one."""
    sent: bool = False
    """Whether it was sent, so that it may have been carried out whatever the answer was."""


Look = Callable[[ApiError], Awaitable[Answer | None]]
"""What became of a write whose reply was lost; None: nothing, so that it may be tried again."""

Unfit = Callable[[PodState], Answer | None]
"""Why a pod is not to be evicted, by what is read of it just before."""


def _stays_refused(error: ApiError) -> bool:
    """Whether to send it again would be in vain: a right that is missing, a webhook, annotations that are full."""
    return 400 <= error.code < 500 and error.code not in (401, 408, 409, 429)


async def read_pod(session: Session, ref: Ref) -> PodState | None:
    """The pod of this name; None: there is none. Raises ApiError when the server does not answer."""
    try:
        body = await session.send(PODS.request("get", ref.namespace, ref.name))
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    pod = decoded(body, _POD, "Pod")
    meta = pod.metadata
    deleted = meta.deletion_timestamp is not None
    annotations = meta.annotations or {}
    graceless = pod.spec.termination_grace_period_seconds == 0
    return PodState(
        uid=meta.uid,
        version=meta.resource_version,
        node=pod.spec.node_name,
        deleted=deleted,
        phase=pod.status.phase,
        annotations=annotations,
        labels=pod_labels(meta),
        body=body,
        controller=controller_of(meta),
        ready=_is_ready(pod),
        graceless=graceless,
    )


async def count_ready(session: Session, namespace: str, ready: Ready) -> int:
    """How many of these pods are there and ready, as the API server has them now. Raises ApiError."""
    request = replace(PODS.request("list", namespace), params={"labelSelector": ready.selector})
    pods = decoded(await session.send(request), _PODS, "PodList").items or ()
    return sum(_is_ready(pod) for pod in pods if pod.metadata.uid in ready.uids)


def _is_ready(pod: WirePod) -> bool:
    conditions = pod.status.conditions or ()
    is_ready = any(condition.type == "Ready" and condition.status == "True" for condition in conditions)
    return is_ready and pod.metadata.deletion_timestamp is None


class PodWriter:
    """Binds, nominates and evicts, within the budget. `allowed` is asked before each write; after `judged` seconds an
    eviction that was not sent is judged anew."""

    def __init__(
        self,
        session: Session,
        discovery: Discovery,
        budget: Budget,
        clock: Clock,
        late: LateEvictions,
        pods: PodStore,
    ) -> None:
        self._session, self._discovery, self._budget, self._clock = session, discovery, budget, clock
        self._late = late
        self._controllers = Controllers(session, discovery, pods, clock)
        self.judged = JUDGED
        """Seconds that each write may wait for its turn which leads to an eviction."""

    async def read_node(self, name: str) -> Node | None:
        """A node as the API server has it now; None: there is none. Raises ApiError."""
        # By a list: the right to that is needed anyway.
        request = replace(NODES.request("list", ""), params={"fieldSelector": f"metadata.name={name}"})
        try:
            found = decoded(await self._session.send(request), _NODES, "NodeList").items or ()
        except ApiError as error:
            self._budget.pause(error.quiet)
            raise
        return next((to_node(node) for node in found if node.metadata.name == name), None)

    async def bind(self, action: Bind, allowed: Allowed) -> Answer:
        """Put the pod on the node, if it still is the one that was judged and is on none."""
        return await self._send(_binding(action), allowed, partial(self._look_bound, action))

    async def _look_bound(self, action: Bind, lost: ApiError) -> Answer | None:
        try:
            pod = await self._read_back(action.workload)
        except ApiError:
            return failed(lost.code, f"{lost}; whether it was carried out cannot be read back")
        if pod is None or pod.uid != action.uid:
            return conflict(404, f"it is gone ({lost})")
        if pod.node == action.node:
            return Answer("done", lost.code, f"the reply was lost ({lost}), but it was carried out")
        if pod.node:
            return conflict(409, f"it is on {pod.node} already")
        return conflict(409, "it is being deleted") if pod.deleted else None

    async def nominate(self, action: Nominate, allowed: Allowed) -> Answer:
        """Set or clear the pod's nominated node."""
        return await self._send(_nomination(action), allowed, None)

    async def evict(
        self, action: Evict, allowed: Allowed, unfit: Unfit | None = None, *, dry_run: bool = False
    ) -> Answer:
        """Evict the pod, if it still is the one that was judged, and `unfit` has no objection to its present state; or
        only ask whether it would be evicted: for that, too, its controller is read, and others are changed first."""
        try:
            version = await self._discovery.body_of("v1", "pods/eviction")
        except ApiError as error:
            return refused_by(error)
        if version is None:
            return failed(404, "the API server has no pods/eviction")
        in_time = partial(self._allowed_in_time, allowed, self._clock.now())
        eviction = _Eviction(action, version, allowed, in_time, dry_run)
        answer = await self._evict_as_it_is(eviction, unfit)
        if eviction.unanswered is not None and answer.result != "done" and not action.restore:
            return await self._give_up(action, eviction.unanswered, answer, allowed)
        return answer

    async def why_budget_forbids(self, action: Evict, allowed: Allowed) -> Answer | None:
        """Why a PodDisruptionBudget forbids the pod to go now, as the server says to a dry run, or why that is not
        asked; None: none does, or the server does not say, as of a pod that several select, of which it evicts none."""
        try:
            version = await self._discovery.body_of("v1", "pods/eviction")
        except ApiError as error:
            return refused_by(error)
        if version is None:
            return None
        body = _eviction_body(action, version, {"uid": action.uid})
        request = _dry(PODS.request("create", *_place(action.workload), "eviction", body=body))
        answer = await self._send(request, allowed, None, _not_evicted, None, self.judged)
        if answer.reason == "Budget":
            return replace(answer, message=f"a PodDisruptionBudget forbids it: {answer.message}")
        # Not of a pod that several select, nor where it may not be asked.
        may_go = answer.result == "done" or answer.reason == "Budgets" or 400 <= answer.code < 500
        return None if may_go else answer

    async def _evict_as_it_is(self, eviction: _Eviction, unfit: Unfit | None) -> Answer:
        """Read the pod and send what names its version. Of one that has changed meanwhile, only its preemption is
        repeated: whether it is to be moved is judged anew."""
        action = eviction.action
        answer = refused_by(ApiError(0, "NoAnswer", "it was not tried"))
        for _ in range(TRIES if action.restore or action.reason.startswith(GIVES_WAY) else 1):
            try:
                pod = await read_pod(self._session, action.workload)
            except ApiError as error:
                return refused_by(error)
            if pod is None:
                return GONE
            if stop := _unfit(action, pod) or (unfit and unfit(pod)):
                return stop
            answer = await self._try_to_evict(eviction, pod)
            if _may_be_done(eviction, answer):
                with self._late.sending(action, pod.controller[2]):
                    answer = await self._unless_gone(eviction, answer, pod.controller[2])
            if (answer.result, answer.code) != ("conflict", 409):
                break
        return answer

    async def _unless_gone(self, eviction: _Eviction, answer: Answer, controller: str) -> Answer:
        """The answer to an eviction that was sent and refused, or done where the pod has gone since: a proxy may have
        sent it twice, and given the second answer. It counts as evicted by us then: `[disruption]` must not let another
        go for it, and one that nobody else would create again is created; also one that a person deletes in the same
        moment. One that stays is changed, so that the other of the two is refused too, however late it arrives; where
        that fails, no other of its controller goes before it is done, unless the server will never do it: this
        eviction had its answer, and its controller's pods could not be moved for LATE seconds after each refusal."""
        action = eviction.action
        try:
            if stop := await self._budget.turn(partial(_forbidden_by_another_leader, eviction.allowed)):
                raise ApiError(0, stop.reason, stop.message)
            stays = await void_evictions(self._session, action.workload, action.uid, self._clock.now())
        except ApiError as error:
            self._budget.pause(error.quiet)
            if action.restore:  # its record stays
                return failed(0, f"{answer.message}; whether it may go later is not known: {error}")
            stays = await self._stays(action)
            if not _stays_refused(error):
                self._late.note(action, controller)
                if stays:  # it counts as one that may have been evicted, like one that had no answer
                    return failed(answer.code, f"{answer.message}, and it may go later: {error}")
        done = Answer("done", answer.code, f"it was refused ({answer.message}), but has gone since")
        return answer if stays else done

    async def _stays(self, action: Evict) -> bool:
        """Whether the pod is there, as far as can be seen: nothing more is known of one that cannot be read."""
        try:
            pod = await read_pod(self._session, action.workload)
        except ApiError:
            return True
        return pod is not None and pod.uid == action.uid and not pod.deleted

    async def _try_to_evict(self, eviction: _Eviction, pod: PodState) -> Answer:
        """Send the eviction of the pod as it was read."""
        action, controller = eviction.action, pod.controller[2]
        # Before its turn, which would be in vain.
        if stop := await self._settle(action, controller, eviction.allowed):
            return stop
        request = _eviction_request(eviction, pod)
        before = partial(self._why_not_now, eviction, pod)
        if eviction.dry_run:
            return await self._send(request, eviction.in_time, None, _not_evicted, before, self.judged)
        look = partial(self._look_evicted, eviction, controller)
        with self._late.sending(action, controller):
            return await self._send(request, eviction.in_time, look, _not_evicted, before, self.judged)

    async def _give_up(self, action: Evict, controller: str, answer: Answer, allowed: Allowed) -> Answer:
        """Let no eviction come later that had no answer, also where it is judged anew, as its node has changed. Of a
        pod that is recreated its record tells that."""
        self._late.note(action, controller)
        if allowed() == NOT_LEADING:
            return answer
        why = await self._late.give_up(action, controller)
        return failed(answer.code, f"{answer.message}, and it may go later: {why}") if why else answer

    def _allowed_in_time(self, allowed: Allowed, begun: float) -> Answer | None:
        waited = self._clock.now() - begun
        is_old = Answer("refused", message=f"it has waited {waited:.1f} s, and is judged anew", reason=OUTDATED)
        return allowed() or (is_old if waited > self.judged else None)

    async def _why_not_now(self, eviction: _Eviction, pod: PodState) -> Answer | None:
        """What is read when its turn has come: that its controller would recreate it, and that enough of the others are
        ready; and that no other of its controller may go by an earlier eviction. It takes time to read, in which the
        daemon may have been suspended."""
        action = eviction.action
        if uid := pod.controller[2]:
            namespace = action.workload.namespace
            ready = bool(action.target) and pod.ready  # a preemption does not wait
            if stop := await self._controllers.why_not_recreated(namespace, pod.controller, pod.labels, ready=ready):
                return stop
            if stop := await self._settle(action, uid, eviction.in_time):
                return stop
        stop = await self._too_few_others(action) or eviction.allowed()
        eviction.sent = eviction.sent or stop is None
        return stop

    async def _settle(self, action: Evict, controller: str, allowed: Allowed) -> Answer | None:
        """Change the others of its controller that may go by an earlier eviction."""
        controllers = [controller] if controller else []
        return await self._late.settle(action.workload.namespace, controllers, allowed, action.uid)

    async def _too_few_others(self, action: Evict) -> Answer | None:
        """Why a pod is not evicted for the sake of those that do its work; None: enough of them are ready."""
        if not isinstance(action.others, Ready):
            return None
        begun = self._clock.now()
        try:
            ready = await count_ready(self._session, action.workload.namespace, action.others)
        except ApiError as error:
            return refused_by(error)
        if ready < action.others.count:
            message = f"{ready} of {action.others.count} others are ready by now"
            return Answer("refused", message=message, reason=OTHERS_NOT_READY)
        if (seconds := self._clock.now() - begun) > FRESH:
            return conflict(409, f"the others were ready up to {seconds:.1f} s ago")
        return None

    async def _look_evicted(self, eviction: _Eviction, controller: str, lost: ApiError) -> Answer | None:
        action, eviction.unanswered = eviction.action, controller
        try:
            pod = await self._read_back(action.workload)
        except ApiError:
            return failed(lost.code if lost.lost else 0, f"{lost}; whether it was carried out cannot be read back")
        if pod is None or pod.uid != action.uid or pod.deleted:
            return Answer("done", lost.code, f"the reply was lost ({lost}), but it was carried out")
        return None

    async def _read_back(self, ref: Ref) -> PodState | None:
        """Read the pod, a few times if need be: it is worth waiting when a write has had no answer. Raises ApiError."""
        *pauses, last = READ_BACK_AFTER
        for seconds in pauses:
            await self._clock.sleep_until(self._clock.now() + seconds)
            try:
                return await read_pod(self._session, ref)
            except ApiError:
                continue
        await self._clock.sleep_until(self._clock.now() + last)
        return await read_pod(self._session, ref)

    async def _send(
        self,
        request: Request,
        allowed: Allowed,
        look: Look | None,
        refused: Callable[[ApiError], Answer] | None = None,
        before: Callable[[], Awaitable[Answer | None]] | None = None,
        patience: float | None = None,
    ) -> Answer:
        """Send the request and return what came of it. `before` is asked when its turn has come; an answer forbids it.
        `refused` turns an error into an answer; only a failed one is tried again. Once a reply was lost, a later
        refusal is reported as failed: the first write may still happen. Without a `look`, the write may as well be done
        twice."""
        answer, lost = NOT_LEADING, False
        for _ in range(1 + _REPEATS):
            if stop := await self._budget.turn(allowed, patience) or (before and await before()):
                return _doubted(stop, lost=lost)
            try:
                await self._session.send(request)
                return _DONE
            except ApiError as error:
                answer = (refused or _refused)(error)
                again = answer.result == "failed"
                lost = lost or (again and error.lost)
                self._budget.pause(error.quiet if again else 0.0)
                # Of two that were sent, the first may have been carried out late, and stand in the way of the second.
                if (again and error.lost) or (lost and error.code in (404, 409)):
                    if look and (outcome := await look(error)):
                        return outcome
                elif not again or not 0 < error.quiet <= self._budget.patience:
                    return _doubted(answer, lost=lost)
        return _doubted(answer, lost=lost)


def _doubted(answer: Answer, *, lost: bool) -> Answer:
    """The answer, turned into a failure if an earlier reply was lost and this one does not settle what happened."""
    unsure = answer.result == "failed" and (answer.code == 0 or answer.code >= 500)
    if not lost or unsure or answer.result == "done":
        return answer
    return failed(0, f"a reply was lost, so that it may be done yet; then {answer.message}")


def _refused(error: ApiError) -> Answer:
    if error.code == 404 or other_uid(error):
        return conflict(404, f"it is gone: {error.message}")
    return conflict(409, error.message) if error.code == 409 else refused_by(error)


def _not_evicted(error: ApiError) -> Answer:
    """A budget that forbids it says so with the status of a busy server, and several budgets with that of a fault."""
    if error.code == 429 and (_BUDGET in error.causes or "disruption budget" in error.message):
        return Answer("refused", 429, error.message, "Budget")
    if error.code == 500 and _SEVERAL in error.message:
        return Answer("refused", 500, error.message, "Budgets")
    return GONE if error.code == 404 else _refused(error)


def _unfit(action: Evict, pod: PodState) -> Answer | None:
    if pod.uid != action.uid:
        return conflict(404, "it is gone: another pod has its name")
    if pod.deleted:
        return TERMINATING
    if pod.phase not in ("Succeeded", "Failed") and (annotation := sparing_annotation(pod)):
        return Answer("refused", message=f"its annotation {annotation} asks for it", reason="DoNotDisrupt")
    return None


def _may_be_done(eviction: _Eviction, answer: Answer) -> bool:
    """Whether it may have been carried out in spite of its answer. Of one that had none that is known, or its record
    stays."""
    is_sent = eviction.sent and not eviction.dry_run and (answer.result, answer.reason) != ("done", "")
    return is_sent and (eviction.unanswered is None or eviction.action.restore)


def _forbidden_by_another_leader(allowed: Allowed) -> Answer | None:
    """Whether another daemon leads; whatever else has changed, an eviction that was sent may come late."""
    return NOT_LEADING if allowed() == NOT_LEADING else None


def _binding(action: Bind) -> Request:
    ref = action.workload
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": action.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": action.node},
    }
    return PODS.request("create", ref.namespace, ref.name, "binding", body=encode(body))


def _nomination(action: Nominate) -> Request:
    body = {"metadata": {"uid": action.uid}, "status": {"nominatedNodeName": action.node or None}}
    return PODS.request("patch", action.workload.namespace, action.workload.name, "status", body=encode(body))


def _eviction_request(eviction: _Eviction, pod: PodState) -> Request:
    action, ref = eviction.action, eviction.action.workload
    preconditions = {"uid": action.uid, "resourceVersion": pod.version}
    # A copy under its name must not begin before its kubelet has said that the pod has ended.
    grace = {"gracePeriodSeconds": 1} if action.restore and pod.graceless else {}
    body = _eviction_body(action, eviction.version, preconditions, **grace)
    request = PODS.request("create", *_place(ref), "eviction", body=body)
    return _dry(request) if eviction.dry_run else request


def _eviction_body(action: Evict, version: str, preconditions: dict[str, str], **options: int) -> bytes:
    ref = action.workload
    return encode(
        {
            "apiVersion": version,
            "kind": "Eviction",
            "metadata": {"name": ref.name, "namespace": ref.namespace},
            "deleteOptions": {"preconditions": preconditions, **options},
        }
    )


def _place(ref: Ref) -> tuple[str, str]:
    return ref.namespace, ref.name


def _dry(request: Request) -> Request:
    """The request, of which the server says what would come, and does nothing."""
    return replace(request, params={"dryRun": "All"})


CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "NoSchedule")


class Recreating(Protocol):
    """Evicts a pod that has no controller and shall come back."""

    async def evict(self, action: Evict, allowed: Allowed) -> Answer:
        """Evict the pod, if it could be created again."""

    async def try_out(self, action: Evict, allowed: Allowed) -> Answer:
        """Ask whether it could be; do nothing."""


class PodActions:
    """Binds, evicts and nominates; `allowed` is called before each write, `tell` with each message about it."""

    def __init__(
        self,
        stores: tuple[PodStore, NodeStore],
        writer: PodWriter,
        restorer: Recreating,
        allowed: Allowed,
        tell: Callable[[Announce], None],
        now: Callable[[], float],
    ) -> None:
        (self._pods, self._nodes), self._writer, self._restorer = stores, writer, restorer
        self._allowed, self._tell, self._now = allowed, tell, now

    async def act(self, action: Bind | Evict | TryEvict | Nominate, judged: Allowed | None = None) -> Answer:
        """Carry it out. `judged`: what `as_judged` gave before anything was waited for."""
        match action:
            case Bind():
                return await self._bind(action)
            case Evict():
                return await self._evict(action, judged or self.as_judged(action))
            case TryEvict(evict):
                return await self._try_evict(evict)
            case Nominate():
                answer = await self._writer.nominate(action, self._allowed)
                if answer.result == "done":
                    self._pods.assume(action.workload, action.uid, nominated=action.node)
                return answer

    async def why_kept(self, action: Evict) -> Answer | None:
        """Why a pod may not go that its controller is to remove, of which the server asks no PodDisruptionBudget: its
        node is another than the watch shows, or a budget forbids it."""
        return await self._why_changed(action) or await self._writer.why_budget_forbids(action, self._allowed)

    async def _bind(self, action: Bind) -> Answer:
        answer = await self._writer.bind(action, lambda: self._allowed() or self._unfit(action))
        if answer.result == "done":
            self._pods.assume(action.workload, action.uid, node=action.node, waits=None)
        return answer

    def _unfit(self, action: Bind) -> Answer | None:
        """What a pod has waited through for its turn may have changed its node, and it may be another of its name by
        now: Kubernetes 1.20 ignores the UID of a binding."""
        node, pod = self._nodes.get(action.node), self._pods.get(action.workload.namespace, action.workload.name)
        if pod is None or pod.uid != action.uid:
            return conflict(404, "it is gone")
        if pod.node not in ("", action.node):
            return conflict(0, f"it is on {pod.node} already")
        why = f"{action.node} is gone" if node is None else self._why_closed(pod, node)
        return conflict(0, why) if why else None

    def _why_closed(self, pod: Pod, node: Node) -> str:
        """Why an existing node no longer accepts a pod; empty: it does."""
        if not node.ready and pod.needs.tolerates((NOT_READY,)):
            return f"{node.name} is not ready"
        if node.unschedulable and pod.needs.tolerates((CORDONED,)):
            return f"{node.name} is cordoned"
        if kept_off := pod.needs.tolerates(node.taints):
            return f"{node.name} has a taint by now that it does not tolerate, {kept_off}"
        if is_copy(pod) and (limit := pod.needs.time_limit(node.taints)):
            return f"{node.name} has a taint by now for which Kubernetes would delete it, {limit[0]}"
        lack = self._lacking_resource(pod, node)
        return f"{node.name} is full by now: too little {lack} is left" if lack else ""

    def _lacking_resource(self, pod: Pod, node: Node) -> str:
        """The first resource that a node has too little of for a pod, as its kubelet will count; empty: none."""
        used: Counter[str] = Counter()
        for occupant in self._pods.places().on_nodes().get(node.name, ()):
            used.update(needed(occupant) if occupant.uid != pod.uid else {})
        for resource, amount in needed(pod).items():
            if resource in node.allocatable and used[resource] + amount > whole(resource, node.allocatable[resource]):
                return resource
        return ""

    async def _evict(self, action: Evict, allowed: Allowed) -> Answer:
        pod = self._pods.get(action.workload.namespace, action.workload.name)
        if pod is not None and pod.uid == action.uid and pod.deleted:
            return TERMINATING
        if _is_seen_to_leave(action) and (stop := await self._why_changed(action)):
            return stop
        answer = await (self._restorer if action.restore else self._writer).evict(action, allowed)
        if answer.result == "done" and answer.reason == "":
            self._pods.assume_deleted(action.workload, action.uid, self._now())
            reason = "Preempted" if action.reason.startswith(GIVES_WAY) else "Evicted"
            self._tell(Announce(action.workload, action.uid, reason, f"{action.reason}, from {action.node}"))
        return answer

    def as_judged(self, action: Evict) -> Allowed:
        """Whether a pod may be evicted, for as long as its node is like it is now, when it is judged. It waits for its
        turn, a bare pod for several, as its record is written first."""
        name, before = action.node, reasons_to_leave(self._nodes.get(action.node))

        def allowed() -> Answer | None:
            if stop := self._allowed():
                return stop
            changed = reasons_to_leave(self._nodes.get(name)) != before
            return outdated(name) if changed else None

        return allowed

    async def _why_changed(self, action: Evict) -> Answer | None:
        """Whether a pod's node is another than the watch shows, which may have fallen silent, or be that of a server
        whose cache stands still. None: it is the same."""
        begun = self._now()
        try:
            node = await self._writer.read_node(action.node)
        except ApiError as error:  # nothing was sent
            return replace(refused_by(error), result="refused")
        changed = reasons_to_leave(node) != reasons_to_leave(self._nodes.get(action.node))
        if changed:
            return outdated(action.node)
        if (seconds := self._now() - begun) > self._writer.judged:
            return Answer("refused", message=f"it has waited {seconds:.1f} s, and is judged anew", reason=OUTDATED)
        return None

    async def _try_evict(self, action: Evict) -> Answer:
        """Ask whether the pod would be evicted now, and could be created again."""
        if action.restore and (answer := await self._restorer.try_out(action, self._allowed)).result != "done":
            return answer
        return await self._writer.evict(action, self._allowed, dry_run=True)


def _is_seen_to_leave(action: Evict) -> bool:
    """Whether the pod's node is read before it goes: where it is moved, or nobody would create it again. A preemption
    does not wait."""
    return not action.reason.startswith(GIVES_WAY) or not (action.restore or action.owner)
