"""Evictions that the network may deliver late: of this daemon, which had no answer, and of one that led before.

An eviction names the version of its pod, so it is refused once the pod was changed. Knows how a pod is changed and when
that is needed; knows nothing of how evictions are sent.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from elasticd.base.clock import Clock
from elasticd.base.shapes import moment
from elasticd.base.text import counted
from elasticd.cluster.kubernetes.session import ApiError, Session, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import PODS
from elasticd.cluster.kubernetes.watch.store import PodStore
from elasticd.cluster.kubernetes.wire.objects import WirePod
from elasticd.cluster.kubernetes.write.answers import failed, other_uid
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.model.actions import OUTDATED, Answer, Evict
from elasticd.model.moves import STAYS
from elasticd.model.workload import Ref

LATE = 1000.0
"""Seconds for which an eviction of one that led before may be under way: Linux sends again for about 925 s what has no
answer (tcp_retries2 = 15)."""

AT_A_TIME = 5.0
"""Seconds for which pods are changed before another action has its turn."""

_POD = msgspec.json.Decoder(WirePod)


async def void_evictions(session: Session, ref: Ref, uid: str, now: float) -> bool:
    """Change a pod, so that an eviction that was sent before is refused, however late it arrives: it names the version
    of the pod. Returns whether the pod stays: False where it is gone, or being deleted. Raises ApiError."""
    body = encode({"metadata": {"uid": uid, "annotations": {STAYS: moment(now) or ""}}})
    try:
        changed = await session.send(PODS.request("patch", ref.namespace, ref.name, "status", body=body))
    except ApiError as error:
        if error.code in (404, 409) or other_uid(error):
            return False
        raise
    return decoded(changed, _POD, "Pod").metadata.deletion_timestamp is None


class Suspect(Struct, frozen=True):
    """A pod for which an eviction may come, and until when, in seconds."""

    ref: Ref
    until: float


class LateEvictions:
    """Those that may come late, and the pods that were changed for it. `abandoned` says when leadership was last taken
    from a daemon that did not release it and may have had pods evicted, also from this one before its restart."""

    def __init__(
        self, session: Session, budget: Budget, clock: Clock, pods: PodStore, abandoned: Callable[[], float]
    ) -> None:
        self._session, self._budget, self._clock, self._pods = session, budget, clock, pods
        self._abandoned = abandoned
        self._suspects = defaultdict[str, dict[str, Suspect]](dict)
        """Pods that are to be changed, by their controller's UID and theirs."""
        self._settled, self._settled_since = set[str](), 0.0
        """UIDs of the controllers whose pods were looked at since leadership was last taken so: others are newer."""
        self._changing = set[str]()
        """UIDs of the controllers whose pods are being changed."""

    def expects_any(self) -> bool:
        """Whether an eviction may come late, of this daemon or of one that led before."""
        each = ((uid, suspect) for suspects in self._suspects.values() for uid, suspect in suspects.items())
        return self._clock.now() < self._abandoned() + LATE or any(self._may_go(*one) for one in each)

    @contextmanager
    def sending(self, action: Evict, controller: str) -> Iterator[None]:
        """Evict a pod in the block: if that is cancelled, as when the daemon ends, it may be evicted yet."""
        try:
            yield
        except asyncio.CancelledError:
            self.note(action, controller)
            raise

    def note(self, action: Evict, controller: str) -> None:
        """Remember an eviction that had no answer. Of a pod that is recreated its record tells that."""
        if not action.restore:
            self._suspects[controller][action.uid] = Suspect(action.workload, self._clock.now() + LATE)

    async def give_up(self, action: Evict, controller: str) -> str:
        """Let an eviction not come later that was noted. Returns why it may; empty: it may not."""
        return str(await self._void(controller, action.uid, action.workload) or "")

    async def settle(
        self, namespace: str, controllers: Iterable[str], allowed: Allowed, leaving: str = ""
    ) -> Answer | None:
        """Before a pod of these controllers leaves (`leaving`: its UID), change the others whose eviction may be under
        way, so that no two go. None: there were none; otherwise it is judged anew, as this takes time: what is changed
        in AT_A_TIME seconds need not be changed again. Of two that ask at a time, one waits for the other."""
        found = {each: self._others(namespace, each, leaving) for each in controllers}
        if not (count := sum(map(len, found.values()))):
            return None
        ours = [each for each in found if each not in self._changing]
        self._changing.update(ours)
        try:
            others = [(each, uid, ref) for each in ours for uid, ref in found[each].items()]
            if stop := await self._change(others, allowed):
                return stop
        finally:
            self._changing.difference_update(ours)
        message = f"an eviction of {counted(count, 'other pod')} might come late: changed first, it is refused"
        return Answer("refused", message=message, reason=OUTDATED)

    async def _change(self, others: Sequence[tuple[str, str, Ref]], allowed: Allowed) -> Answer | None:
        """Change so many of them as there is time for, and one at least. Returns why one could not be changed."""
        end = self._clock.now() + AT_A_TIME
        for controller, uid, ref in others:
            if stop := await self._budget.turn(allowed):
                return stop
            if error := await self._void(controller, uid, ref):
                why = f"an earlier eviction of {ref.name} may come late, and it cannot be changed: {error}"
                return failed(error.code, why)
            if self._clock.now() > end:
                break
        return None

    def _others(self, namespace: str, controller: str, leaving: str) -> dict[str, Ref]:
        since = self._abandoned()
        if since != self._settled_since:
            self._settled, self._settled_since = set(), since
        if controller not in self._settled and self._clock.now() < since + LATE:
            self._settled.add(controller)
            for pod in self._pods.of_controller(namespace, controller):
                self._suspects[controller][pod.uid] = Suspect(Ref(pod.namespace, "Pod", pod.name, "v1"), since + LATE)
        suspects = self._suspects.get(controller, {}).items()
        return {uid: each.ref for uid, each in suspects if uid != leaving and self._may_go(uid, each)}

    def _may_go(self, uid: str, suspect: Suspect) -> bool:
        pod = self._pods.get(suspect.ref.namespace, suspect.ref.name)
        if pod is None or pod.uid != uid or not pod.is_active:
            return False  # one that has ended was changed by that
        return self._clock.now() < suspect.until

    async def _void(self, controller: str, uid: str, ref: Ref) -> ApiError | None:
        try:
            await void_evictions(self._session, ref, uid, self._clock.now())
        except ApiError as error:
            self._budget.pause(error.quiet)
            return error
        self._suspects[controller].pop(uid, None)
        if not self._suspects[controller]:
            del self._suspects[controller]
        return None
