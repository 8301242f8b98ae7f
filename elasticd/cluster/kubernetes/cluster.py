"""A Kubernetes cluster as the daemon sees it: the stores, watches and writers of this package, wired together.

Knows the order in which they start and stop; knows nothing of policies. Errors of the API leave it only as answers.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import filterfalse

import msgspec
from msgspec import Struct

from elasticd.base.errors import UNREADABLE
from elasticd.base.tasks import cancel
from elasticd.base.text import last_heard
from elasticd.cluster.kubernetes.access import Access, Asked
from elasticd.cluster.kubernetes.custom import AggregatedMetrics
from elasticd.cluster.kubernetes.kubelet import Kubelets
from elasticd.cluster.kubernetes.lease import Elector
from elasticd.cluster.kubernetes.metrics import MetricsClient
from elasticd.cluster.kubernetes.restore.namespaces import Namespaces
from elasticd.cluster.kubernetes.restore.onlooker import Onlooker
from elasticd.cluster.kubernetes.restore.owners import Owners
from elasticd.cluster.kubernetes.restore.records import Records
from elasticd.cluster.kubernetes.restore.restorer import AGAIN, Restorer
from elasticd.cluster.kubernetes.restore.steps import RestorerParts
from elasticd.cluster.kubernetes.reviews import may_read
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.cluster.kubernetes.watch.discovery import honours_deletion_costs
from elasticd.cluster.kubernetes.watch.disruption_budgets import BudgetStore
from elasticd.cluster.kubernetes.watch.informer import (
    Informer,
    follow_autoscalers,
    follow_budgets,
    follow_jobs,
    follow_kind,
    follow_namespaces,
    follow_nodes,
    follow_pods,
    follow_pulls,
    follow_storage,
)
from elasticd.cluster.kubernetes.watch.job_store import JobStore
from elasticd.cluster.kubernetes.watch.pulls import PullSink
from elasticd.cluster.kubernetes.watch.storage import StorageStores
from elasticd.cluster.kubernetes.watch.store import (
    AutoscalerStore,
    NamespaceStore,
    NodeStore,
    PodStore,
    Target,
    WorkloadStore,
    selector_fault,
)
from elasticd.cluster.kubernetes.watch.watch import Dependencies
from elasticd.cluster.kubernetes.wire.objects import WireScale
from elasticd.cluster.kubernetes.wire.selector import SelectorError
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.cluster.kubernetes.write.claims import ClaimBinder
from elasticd.cluster.kubernetes.write.events import Events
from elasticd.cluster.kubernetes.write.jobs import Jobs
from elasticd.cluster.kubernetes.write.late_evictions import LateEvictions
from elasticd.cluster.kubernetes.write.patches import Patcher
from elasticd.cluster.kubernetes.write.pods import PodActions, PodWriter, read_pod
from elasticd.cluster.kubernetes.write.scale import Scaler
from elasticd.decision.decide import VIEW_AGE
from elasticd.decision.disruption import disruption_of
from elasticd.kit.handover import HALF_STOPPED, UNREAD
from elasticd.kit.surge import SURGE
from elasticd.model.actions import (
    OUTDATED,
    Action,
    Announce,
    Answer,
    Bind,
    BindClaim,
    Create,
    Evict,
    Mark,
    Nominate,
    Remove,
    Resize,
    Scale,
    TryEvict,
)
from elasticd.model.jobs import JOB_KIND
from elasticd.model.moves import Promise, Underway
from elasticd.model.placement import DisruptionBudget
from elasticd.model.rights import Right
from elasticd.model.volumes import Storage
from elasticd.model.workload import Node, Pod, Ref, Room, Workload, group_of
from elasticd.ports.cluster import LEFT_ALONE, OTHER_POLICIES, RECORDS, VERSIONS, Kind, Snapshot, View, scales_of
from elasticd.ports.metrics_api import Followed, Pull

logger = logging.getLogger(__name__)

_POD: Kind = ("v1", "Pod")
_LEASE = ("coordination.k8s.io/v1", "Lease")
_NODE: Kind = ("v1", "Node")
_AUTOSCALER: Kind = ("autoscaling", "HorizontalPodAutoscaler")
_BUDGET: Kind = ("policy", "PodDisruptionBudget")
_NAMESPACE: Kind = ("v1", "Namespace")
_EVICTED: Kind = ("", "evicted pods")
_WRITES: Kind = ("", "writes")

BLIND = 1.5
"""After so many times the silence by which a watch counts as dead another daemon may lead, which may see more."""

_FORBIDDEN_PAUSE = 600.0
"""Seconds until it is asked again whether there are records of evicted pods, where that is forbidden."""

_FAREWELL = 3.0


class LiveSnapshot:
    """What is watched of a cluster, and a Snapshot of it. It is live: each call answers as of now, with immutable
    records."""

    def __init__(
        self,
        deps: Dependencies,
        tasks: asyncio.TaskGroup,
        on_pending: Callable[[], None],
        led_since: Callable[[], float],
    ) -> None:
        """`on_pending` is called whenever somebody asks which pods wait; `led_since` says when this daemon last began
        to lead."""
        self.pod_store, self.node_store, self.workload_store = PodStore(), NodeStore(), WorkloadStore()
        self.job_store, self.autoscaler_store = JobStore(deps.clock.now), AutoscalerStore()
        self._budget_store, self.namespace_store = BudgetStore(self.pod_store), NamespaceStore()
        self.storage_stores, self._storage_informers = StorageStores(), dict[str, Informer]()
        self._deps, self._group, self._on_pending, self._led_since = deps, tasks, on_pending, led_since
        self._always = {_POD: follow_pods(deps, self.pod_store), _NODE: follow_nodes(deps, self.node_store)}
        self._kinds: dict[Kind, tuple[Informer, asyncio.Task[None]]] = {}
        self._tasks = [tasks.create_task(informer.run()) for informer in self._always.values()]
        self._autoscalers_read = set[str]()
        """The namespaces of which they were read before this daemon last began to lead."""
        self._follow_autoscalers()

    def _follow_autoscalers(self) -> None:
        self._autoscalers_since = self._deps.clock.now()
        self._always[_AUTOSCALER] = informer = follow_autoscalers(self._deps, self.autoscaler_store)
        self._autoscalers_task = self._group.create_task(informer.run())

    def read_autoscalers_again(self) -> None:
        """Read them anew if this daemon leads since they were. A watch may be late: another may have led when they were
        changed, and have been seen to yield to them."""
        if self._autoscalers_since < self._led_since():
            informer, namespaces = self._always[_AUTOSCALER], self._deps.namespaces or ("",)
            self._autoscalers_read.update(each for each in namespaces if informer.confirmed(each) > 0)
            self._autoscalers_task.cancel()
            self._follow_autoscalers()

    def _informers(self) -> list[tuple[Kind, Informer]]:
        return [*self._always.items(), *[(kind, informer) for kind, (informer, _) in self._kinds.items()]]

    def watch_kinds(self, kinds: frozenset[Kind]) -> None:
        """Watch the workloads of these kinds, and of no others."""
        for kind in self._kinds.keys() - kinds:
            _, task = self._kinds.pop(kind)
            task.cancel()
            self.workload_store.of(kind).retain("", ())
            if kind == JOB_KIND:
                self.job_store.clear()
        for kind in sorted(kinds - self._kinds.keys()):
            if kind == JOB_KIND:
                informer = follow_jobs(self._deps, self.job_store)
            else:
                informer = follow_kind(self._deps, kind, self.workload_store)
            self._kinds[kind] = informer, self._group.create_task(informer.run())

    async def settled(self, patience: float) -> None:
        """Wait so many seconds at most for the first lists of what nobody has yet waited for."""
        fresh = [informer for _, informer in self._informers() if not informer.awaited]
        if not fresh:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                for informer in fresh:
                    await informer.settled()
        for informer in fresh:
            informer.awaited = True

    async def close(self) -> None:
        await cancel(*self._tasks, self._autoscalers_task, *[task for _, task in self._kinds.values()])

    @property
    def is_rolled_back(self) -> bool:
        """Whether pods or nodes are as they were before etcd was put back, and are being listed anew."""
        return any(self._always[kind].is_rolled_back for kind in (_POD, _NODE))

    def problems(self) -> dict[Kind, str]:
        informers = self._informers()
        unwatched = {kind: informer.problem for kind, informer in informers if informer.problem}
        unread = {scales_of(kind): informer.scale_problem for kind, informer in informers if informer.scale_problem}
        return unwatched | unread

    def views(self) -> list[View]:
        found = [(kind, informer.current(), informer.problem) for kind, informer in self._informers()]
        return [View(kind, current, problem) for kind, current, problem in found if current is not None]

    @property
    def skipped(self) -> int:
        """How often an object could not be read."""
        return sum(informer.skipped for _, informer in self._informers())

    @property
    def confirmed(self) -> float:
        return self._always[_POD].confirmed()

    @property
    def nodes_confirmed(self) -> float:
        return self._always[_NODE].confirmed()

    def why_blind(self) -> str:
        """That the server has not answered about pods or nodes for long; empty: it does, or refuses to."""
        now, longest = self._deps.clock.now(), BLIND * self._deps.silence
        for kind in (_POD, _NODE):
            informer = self._always[kind]
            if informer.unanswered and 0 < informer.confirmed() < now - longest:
                return f"the API server does not answer about {kind[1]}s: {last_heard(now, informer.confirmed())}"
        return ""

    def confirmed_for(self, ref: Ref) -> float:
        """Nodes and other kinds have no part in that."""
        watched = self._kinds.get((ref.api_version, ref.kind))
        if watched is None:
            return 0.0
        return min(self._always[_POD].confirmed(ref.namespace), watched[0].confirmed_for(ref.namespace, ref.name))

    @property
    def version(self) -> int:
        return self.workload_store.version

    def workloads(self) -> Collection[Workload]:
        return self.workload_store.all()

    def workload(self, ref: Ref) -> Workload | None:
        """A job set is there as soon as the Jobs of its namespace were ever read."""
        if (ref.api_version, ref.kind) != JOB_KIND:
            return self.workload_store.get(ref)
        watched = self._kinds.get(JOB_KIND)
        return self.job_store.get(ref) if watched and watched[0].confirmed(ref.namespace) > 0 else None

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        """None when the selector is at fault."""
        try:
            pods = self.pod_store.select(workload.ref.namespace, workload.selector)
        except SelectorError:
            return ()
        return self.job_store.pods_in_flight(workload, pods) if workload.jobs else pods

    def changes_since(self, earlier: Snapshot) -> Collection[Ref] | None:
        return None

    def selector_fault(self, workload: Workload) -> str:
        return selector_fault(workload.selector)

    def nodes(self) -> tuple[Node, ...]:
        return self.node_store.all()

    def rooms(self) -> tuple[Room, ...]:
        return self.pod_store.places().rooms(self.node_store.all())

    def pending(self) -> tuple[Pod, ...]:
        self._on_pending()
        return self.pod_store.places().pending()

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        return self.pod_store.places().on_nodes()

    def budgets(self) -> tuple[DisruptionBudget, ...] | None:
        """The first call starts the watch, so that only those who ask need the right to read them."""
        informer = self._always.get(_BUDGET)
        if informer is None:
            informer = self._always[_BUDGET] = follow_budgets(self._deps, self._budget_store)
            self._tasks.append(self._group.create_task(informer.run()))
        return self._budget_store.all() if informer.confirmed() > 0 and not self._is_old(informer) else None

    def _is_old(self, informer: Informer, namespace: str = "") -> bool:
        """Whether what it shows, of a namespace or (empty) of all, was current once, and is too old to act on: also
        where the right to read it was taken away since. What could never be read is not old."""
        return 0 < informer.confirmed(namespace) < self._deps.clock.now() - VIEW_AGE

    def namespaces(self) -> Mapping[str, Mapping[str, str]] | None:
        """The first call while a pod selects others by these labels starts the watch."""
        informer = self._always.get(_NAMESPACE)
        if informer is None:
            if not self.pod_store.places().select_namespaces:
                return None
            informer = self._always[_NAMESPACE] = follow_namespaces(self._deps, self.namespace_store)
            self._tasks.append(self._group.create_task(informer.run()))
        return self.namespace_store.labels() if informer.confirmed() > 0 else None

    def storage(self) -> Storage:
        """The first call starts the watches."""
        if not self._storage_informers:
            followed = follow_storage(self._deps, self.storage_stores)
            self._storage_informers = dict(followed.values())
            self._always |= {kind: informer for kind, (_, informer) in followed.items()}
            self._tasks += [self._group.create_task(each.run()) for each in self._storage_informers.values()]
        informers = self._storage_informers.items()
        unread = [plural for plural, informer in informers if informer.confirmed() <= 0 and not informer.absent]
        served = not self._storage_informers["csistoragecapacities"].absent
        return self.storage_stores.storage(tuple(unread), capacities_served=served)

    def autoscaler(self, ref: Ref) -> str:
        informer = self._always[_AUTOSCALER]
        is_unread = self._autoscalers_since < self._led_since() or not informer.is_settled
        if is_unread or self._is_old(informer, ref.namespace) or self._are_autoscalers_lost(ref.namespace):
            return UNREAD
        names = self.autoscaler_store.scaling(ref)
        half = HALF_STOPPED if self.autoscaler_store.half_stopped(ref) else ""
        return f"HorizontalPodAutoscaler {', '.join(names)}{half}" if names else ""

    def _are_autoscalers_lost(self, namespace: str) -> bool:
        """Whether they were read, and not since this daemon last began to lead, as the right was taken away."""
        was_read = not self._autoscalers_read.isdisjoint(("", namespace))
        return was_read and self._always[_AUTOSCALER].confirmed(namespace) <= 0

    def stopped_by_takeover(self) -> list[str]:
        if self._autoscalers_since < self._led_since() or not self._always[_AUTOSCALER].is_settled:
            return []
        targets = [self._as_watched(target) for target in self.autoscaler_store.taken_over]
        return [f"{space}/{kind}/{name}" for space, _, kind, name in filterfalse(self._is_missing, targets)]

    def _as_watched(self, target: Target) -> Target:
        """The target with its kind as it is watched: an autoscaler may name it in lower case."""
        space, group, named, name = target
        kinds = (kind for version, kind in self._kinds if (group_of(version), kind.lower()) == (group, named.lower()))
        return space, group, next(kinds, named), name

    def _is_missing(self, target: Target) -> bool:
        """Whether an autoscaler's workload is of a kind that is watched, and not there, or not known yet."""
        namespace, group, kind, name = target
        watched = [each for each in self._kinds if each[1] == kind and group_of(each[0]) == group]
        return bool(watched) and not any(self.workload_store.of(each).get((namespace, name)) for each in watched)


class Description(Struct, frozen=True):
    """What a status page shows of a cluster."""

    server: str
    version: str
    identity: str
    leading: bool
    leader: str
    confirmed: float
    problems: dict[str, str]
    skipped: int
    events_dropped: int


class ClusterParts(Struct, frozen=True):
    """What a cluster is made of."""

    deps: Dependencies
    budget: Budget
    elector: Elector | None
    identity: str
    version: str
    acts: bool
    """Whether it is opened to act on it, and not only to look."""
    home: str
    """The daemon's own namespace."""
    lease: str
    """Namespace and name of the Lease; empty: nobody is elected."""
    patience: float
    """How many seconds the first observation of a kind may wait for its first list."""


class KubernetesCluster:
    """A Cluster. Made by Kubernetes.open, which also ends it."""

    def __init__(self, parts: ClusterParts, tasks: asyncio.TaskGroup) -> None:
        self._parts, self._group = parts, tasks
        elector = parts.elector
        self.snapshot = view = LiveSnapshot(parts.deps, tasks, self._resume, self._led_since)
        if elector is not None:
            elector.why_blind = view.why_blind
            elector.note_rollback = partial(parts.deps.rollbacks.note, "leases")
        deps, session, clock = parts.deps, parts.deps.session, parts.deps.clock
        self._events = Events(session, parts.budget, clock, parts.identity)
        self._scaler = Scaler(session, deps.discovery, parts.budget, clock, self._assume, view.workload_store.get)
        self._patcher = Patcher(session, deps.discovery, parts.budget)
        self._late = LateEvictions(
            session, parts.budget, clock, view.pod_store, lambda: elector.abandoned if elector else -math.inf
        )
        writer = PodWriter(session, deps.discovery, parts.budget, clock, self._late, view.pod_store)
        records, patience = Records(session, parts.home, time.time), 3 * parts.patience
        restorer_parts = RestorerParts(
            session,
            parts.budget,
            clock,
            records,
            writer,
            Namespaces(session, parts.home),
            Owners(session, deps.discovery),
            view.pod_store,
            view.node_store,
            lambda: self.leading,
            self._events.begin,
            parts.identity,
            patience,
            parts.lease,
            lambda: bool(parts.deps.rollbacks.problem),
        )
        self._restorer, self._onlooker, self._records = Restorer(restorer_parts), Onlooker(records, clock), records
        self._pod_actions = PodActions(
            (view.pod_store, view.node_store),
            writer,
            self._restorer,
            self._allowed_of_pods,
            self._events.begin,
            clock.now,
        )
        self._claims = ClaimBinder(session, parts.budget, view.storage_stores)
        self._jobs = Jobs(session, parts.budget, clock, deps.times, view.job_store)
        self._metrics = MetricsClient(deps.discovery, deps.times, deps.namespaces)
        self.usage, self.node_usage = self._metrics.usage, self._metrics.node_usage
        self.metrics = AggregatedMetrics(deps.discovery, deps.times, parts.patience).read
        self._kubelets = Kubelets(session, deps.times)
        self.summary = self._kubelets.summary
        self._restoring = False
        self._checking: asyncio.Task[None] | None = None
        self._tasks = [tasks.create_task(elector.run())] if elector is not None else []
        self._tasks.append(tasks.create_task(self._find_records()))

    async def close(self) -> None:
        """Stop all watches, stop leading, and release the lease, unless whoever leads next has to know that an eviction
        may come late: then it runs out."""
        await self.snapshot.close()
        await cancel(*self._tasks, *([self._checking] if self._checking is not None else ()))
        await self._restorer.close()
        await self._events.close()
        if (elector := self._parts.elector) is None:
            return
        if self._late.expects_any():
            if elector.leading:
                logger.info("the Lease is left to run out, as an eviction that had no answer may come late")
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await elector.release()

    @property
    def leading(self) -> bool:
        return self._parts.elector is None or self._parts.elector.leading

    def _led_since(self) -> float:
        return -math.inf if self._parts.elector is None else self._parts.elector.since

    @property
    def lease(self) -> str:
        return self._parts.lease

    def _allowed(self) -> Answer | None:
        return None if self.leading else NOT_LEADING

    def _allowed_of_pods(self) -> Answer | None:
        """As for all, and not while what is known of nodes and pods is from before etcd was put back."""
        message = "etcd was put back: nodes and pods are listed anew first"
        anew = Answer("refused", message=message, reason=OUTDATED) if self.snapshot.is_rolled_back else None
        return self._allowed() or anew

    @property
    def honours_deletion_costs(self) -> bool:
        """Whether the server's own controllers look at deletion costs: those of Kubernetes 1.22 and later do."""
        return honours_deletion_costs(self._parts.version)

    def restoring(self) -> list[Underway]:
        return self._restorer.underway if self._parts.acts else self._onlooker.underway

    async def promises(self) -> list[Promise]:
        return await self._restorer.promises(self._led_since()) if self._parts.acts and self.leading else []

    def _resume(self) -> None:
        """Resume the restorations that other daemons left unfinished, from the first time on that somebody asks which
        pods wait, since whoever asks places pods, or that there is one. In a dry run they are only told of."""
        if not self._restoring:
            self._restoring = True
            looking = self._restorer.run() if self._parts.acts else self._onlooker.run()
            self._tasks.append(self._group.create_task(looking))

    async def _find_records(self) -> None:
        """Look for a record of an evicted pod, until its restoration is resumed: also a daemon that places no pods any
        more has to bring back what was evicted before. One that may not list them, which is asked first, so that the
        server need not refuse it, has evicted none."""
        deps, right = self._parts.deps, Asked(Right("list", "", "configmaps"), self._parts.home)
        access, pause = Access(deps.session, self._parts.version), AGAIN
        while not self._restoring:
            if not self.leading and self._parts.acts:
                await deps.clock.sleep_until(deps.clock.now() + 1.0)
                continue
            try:
                may = not self._parts.acts or await access.allowed([right])
                if may and await self._records.listed():
                    self._resume()
                pause = AGAIN if may else _FORBIDDEN_PAUSE
            except (ApiError, *UNREADABLE):
                pause = min(2 * pause, _FORBIDDEN_PAUSE)
            await deps.clock.sleep_until(deps.clock.now() + pause)

    async def observe(self, now: float, kinds: frozenset[Kind]) -> LiveSnapshot:
        """The cluster as it is now. Only the first observation of a kind waits, for its first list; that of a daemon
        that begins to lead, for a new one of the HPAs."""
        self.snapshot.watch_kinds(kinds)
        await self.snapshot.settled(self._parts.patience)
        self.snapshot.read_autoscalers_again()
        await self.snapshot.settled(self._parts.patience)
        if self._checking is None or self._checking.done():
            unseen = self.snapshot.pod_store.unseen_deletions(self._parts.deps.clock.now())
            self._checking = self._group.create_task(self._check_deletions(unseen)) if unseen else None
        return self.snapshot

    async def _check_deletions(self, pods: Sequence[Pod]) -> None:
        """Ask the API server for evicted pods whose deletion no watch has shown: a webhook may have kept one, or the
        watch is late, which no event of it tells."""
        for pod in pods:
            try:
                found = await read_pod(self._parts.deps.session, pod.ref)
            except (ApiError, *UNREADABLE):
                continue  # it counts as deleted until the server answers
            stays = found is not None and found.uid == pod.uid and not found.deleted
            if self.snapshot.pod_store.settle_deletion(pod.ref, pod.uid, stays=stays):
                logger.warning("%s was evicted, as the API server said, and is there as before", pod.ref)

    @contextlib.asynccontextmanager
    async def pulls(self, take: Callable[[Pull], None]) -> AsyncIterator[Followed]:
        follower = follow_pulls(self._parts.deps, PullSink(take))
        task = asyncio.create_task(follower.run(), name="follow pulls")
        try:
            yield follower
        finally:
            await cancel(task)

    def note_policies(self, policies: str) -> None:
        if self._parts.elector is not None:
            self._parts.elector.policies = policies

    async def may_read(self, token: str, path: str) -> str:
        """Why a token does not allow its holder to get a path, as the API server says; empty: it does."""
        return await may_read(self._parts.deps.session, token, path)

    async def _settle(self, action: Scale) -> Answer | None:
        """Before a workload is scaled in, change the pods whose eviction may come late. One that may not be changed
        keeps no count up; one that cannot be yet does."""
        workload = self.snapshot.workload_store.get(action.workload)
        if workload is None or action.after >= action.before or not self._late.expects_any():
            return None
        controllers = sorted({pod.owner[2] for pod in self.snapshot.pods(workload)} - {""})
        answer = await self._late.settle(action.workload.namespace, controllers, self._allowed)
        if answer is None or (400 <= answer.code < 500 and answer.code != 429):
            return None
        return msgspec.structs.replace(answer, result="refused")  # the count was not written

    async def _count(self, action: Scale | Create) -> Answer:
        if isinstance(action, Scale):
            stop = await self._settle(action)
            if stop is None and action.removes is not None:
                stop = await self._pod_actions.why_kept(action.removes)
            return stop or await self._scaler.scale(action, self._allowed)
        return await self._jobs.create(action, self._allowed)

    async def act(self, action: Action) -> Answer:
        """Carry an action out, once, if what it was judged on still holds. Errors are reported in the answer."""
        if not self.leading:
            return NOT_LEADING
        disturbs = disruption_of(action) is not None
        if disturbs and (stop := self._allowed_of_pods()):
            return stop
        judged = self._pod_actions.as_judged(action) if isinstance(action, Evict) else None
        elector = self._parts.elector if disturbs else None
        if elector is not None and (fault := await elector.foretell_disruption()):
            return Answer("refused", message=f"the Lease does not say that pods go: {fault}", reason="Disturbed")
        may_be_done = True
        try:
            answer = await self._act(action, judged)
            may_be_done = answer.result in ("done", "failed")
        finally:  # also of what is cancelled, as when the daemon ends
            if may_be_done and elector is not None:
                elector.note_disruption()
        return answer

    async def _act(self, action: Action, judged: Allowed | None) -> Answer:  # noqa: PLR0911  # one for each kind
        match action:
            case Scale() | Create():
                answer = await self._count(action)
                self._events.after_scale(action, answer)
                return answer
            case Mark():
                answer = await self._patcher.mark(action, self._allowed)
                if answer.result == "done" and not action.pod:
                    self._note(action)
                return answer
            case Remove():
                return await self._jobs.remove(action, self._allowed)
            case Resize():
                return await self._patcher.resize(action, self._allowed)
            case Announce():
                return await self._events.announce(action)
            case Bind() | Evict() | TryEvict() | Nominate():
                return await self._pod_actions.act(action, judged)
            case BindClaim():
                return await self._claims.bind(action, self._allowed_of_pods)

    def _assume(self, action: Scale, scale: WireScale) -> None:
        """Store our own write before the watch reports it, so that no decision is based on the old count."""
        workload = self.snapshot.workload_store.get(action.workload)
        if workload is not None and workload.uid == action.uid:
            version = scale.metadata.resource_version or workload.version
            self.snapshot.workload_store.put(
                msgspec.structs.replace(workload, replicas=scale.replicas, version=version), listed=False
            )

    def _note(self, mark: Mark) -> None:
        """Store our own mark at once, too: what it says of a count of 0 must be known no later than that count."""
        workload = self.snapshot.workload_store.get(mark.workload)
        if workload is not None and workload.uid == mark.uid:
            annotations = mark.on(workload.annotations)
            writer = "" if SURGE in mark.annotations else workload.surge_writer
            noted = msgspec.structs.replace(workload, annotations=annotations, surge_writer=writer)
            self.snapshot.workload_store.put(noted, listed=False)

    def on_change(self, callback: Callable[[], None]) -> None:
        self.snapshot.pod_store.placement_callbacks.append(callback)
        self.snapshot.node_store.placement_callbacks.append(callback)
        self.snapshot.namespace_store.placement_callbacks.append(callback)
        self.snapshot.storage_stores.on_change(callback)

    @property
    def taken_over(self) -> float:
        elector = self._parts.elector
        return elector.taken_over if elector else -math.inf

    @property
    def last_disruption(self) -> float:
        elector = self._parts.elector
        return elector.last_disruption if elector else -math.inf

    def problems(self) -> dict[Kind, str]:
        problems = self.snapshot.problems()
        if self._parts.elector is not None and self._parts.elector.fault:
            problems[_LEASE] = self._parts.elector.fault
        if self._parts.elector is not None and (other := self._parts.elector.other_policies):
            problems[OTHER_POLICIES] = other
        if self._restorer.unread:
            problems[RECORDS] = self._restorer.unread
        if self._restorer.fault:
            problems[_EVICTED] = self._restorer.fault
        if self._restorer.left_alone:
            problems[LEFT_ALONE] = self._restorer.left_alone
        if deferred := self._parts.deps.session.deferred():
            more = f", and {len(deferred) - 1} more" if deferred[1:] else ""
            problems[_WRITES] = f"the server asked not to repeat {deferred[0]}{more}"
        if rollback := self._parts.deps.rollbacks.problem:
            problems[VERSIONS] = rollback
        return problems

    def views(self) -> list[View]:
        return self.snapshot.views()

    def describe(self) -> Description:
        elector = self._parts.elector
        problems = {"/".join(filter(None, kind)): text for kind, text in self.problems().items()}
        return Description(
            server=self._parts.deps.session.host,
            version=self._parts.version,
            identity=self._parts.identity,
            leading=self.leading,
            leader=elector.leader if elector else self._parts.identity,
            confirmed=self.snapshot.confirmed,
            problems=problems,
            skipped=self._metrics.skipped + self._kubelets.skipped + self.snapshot.skipped,
            events_dropped=self._events.dropped,
        )
