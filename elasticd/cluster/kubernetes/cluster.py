"""A Kubernetes cluster as the daemon sees it: the stores, watches and writers of this package, wired together.

Knows the order in which they start and stop; knows nothing of policies. Errors of the API leave it only as answers.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

import msgspec
from msgspec import Struct

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.custom import AggregatedMetrics
from elasticd.cluster.kubernetes.description import Description
from elasticd.cluster.kubernetes.kubelet import Kubelets
from elasticd.cluster.kubernetes.lease import Elector
from elasticd.cluster.kubernetes.metrics import MetricsClient
from elasticd.cluster.kubernetes.restore.records import Records
from elasticd.cluster.kubernetes.restore.restorer import Restorer
from elasticd.cluster.kubernetes.restore.steps import RestorerParts
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.autoscalers import AutoscalerStore
from elasticd.cluster.kubernetes.watch.discovery import honours_deletion_costs
from elasticd.cluster.kubernetes.watch.disruption_budgets import BudgetStore
from elasticd.cluster.kubernetes.watch.informer import (
    Dependencies,
    Informer,
    follow_autoscalers,
    follow_budgets,
    follow_jobs,
    follow_kind,
    follow_nodes,
    follow_pods,
    follow_pulls,
)
from elasticd.cluster.kubernetes.watch.job_store import JobStore
from elasticd.cluster.kubernetes.watch.pulls import PullSink
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore, WorkloadStore, selector_fault
from elasticd.cluster.kubernetes.wire.objects import WireScale
from elasticd.cluster.kubernetes.wire.selector import SelectorError
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.events import Events
from elasticd.cluster.kubernetes.write.jobs import Jobs
from elasticd.cluster.kubernetes.write.marks import Marker
from elasticd.cluster.kubernetes.write.pod_actions import PodActions
from elasticd.cluster.kubernetes.write.pods import PodWriter
from elasticd.cluster.kubernetes.write.resize import Resizer
from elasticd.cluster.kubernetes.write.scale import Scaler
from elasticd.model.actions import Action, Announce, Answer, Bind, Create, Evict, Mark, Nominate, Remove, Resize, Scale
from elasticd.model.jobs import JOB_KIND
from elasticd.model.moves import Underway
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Node, Pod, Readings, Ref, Room, Workload
from elasticd.ports.cluster import Kind
from elasticd.ports.metrics_api import Followed, MetricQuery, Part, Pull

_POD: Kind = ("v1", "Pod")
_LEASE = ("coordination.k8s.io/v1", "Lease")
_NODE: Kind = ("v1", "Node")
_AUTOSCALER: Kind = ("autoscaling", "HorizontalPodAutoscaler")
_BUDGET: Kind = ("policy", "PodDisruptionBudget")
_RECORD: Kind = ("v1", "ConfigMap")
_FAREWELL = 3.0


class LiveSnapshot:
    """A read-only view of the stores. It is live: each call answers as of now, with immutable records."""

    def __init__(self, cluster: "KubernetesCluster") -> None:
        self._cluster = cluster

    @property
    def confirmed(self) -> float:
        """When the server last proved current the pods that it shows."""
        return self._cluster.confirmed

    @property
    def nodes_confirmed(self) -> float:
        """When the server last proved current the nodes that it shows."""
        return self._cluster.nodes_confirmed

    def confirmed_for(self, ref: Ref) -> float:
        """When the server last proved current what it shows of a workload: its kind and the pods of its namespace."""
        return self._cluster.confirmed_for(ref)

    @property
    def version(self) -> int:
        """Grows whenever a workload appears, vanishes or changes its labels."""
        return self._cluster.workloads.version

    def workloads(self) -> Collection[Workload]:
        """All workloads of the kinds that were asked for."""
        return self._cluster.workloads.all()

    def workload(self, ref: Ref) -> Workload | None:
        """One workload, None when the cluster has no such. A job set is there as soon as Jobs are seen at all."""
        if (ref.api_version, ref.kind) == JOB_KIND:
            return self._cluster.jobs.get(ref) if self._cluster.knows_jobs(ref.namespace) else None
        return self._cluster.workloads.get(ref)

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        """The pods its selector matches, ordered by name; none when the selector is at fault."""
        try:
            pods = self._cluster.pods.select(workload.ref.namespace, workload.selector)
        except SelectorError:
            return ()
        return self._cluster.jobs.pods_in_flight(workload, pods) if workload.jobs else pods

    def selector_fault(self, workload: Workload) -> str:
        """Why its selector cannot be read, or an empty string."""
        return selector_fault(workload.selector)

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, ordered by name."""
        return self._cluster.nodes.all()

    def rooms(self) -> tuple[Room, ...]:
        """All nodes with their free capacity, ordered by name; the same tuple while nothing changed."""
        return self._cluster.pods.loads().rooms(self._cluster.nodes.all())

    def pending(self) -> tuple[Pod, ...]:
        """The pods that are on no node and not being deleted, by namespace and name."""
        return self._cluster.waiting()

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        """The pods on each node; the same sequence while nothing changed."""
        return self._cluster.pods.places().on_nodes()

    def budgets(self) -> tuple[DisruptionBudget, ...] | None:
        """All PodDisruptionBudgets; None until they are known. They are followed from the first question on."""
        return self._cluster.disruptions()

    def autoscaler(self, ref: Ref) -> str:
        """The HPA that scales a workload; empty when there is none, or they may not be read."""
        names = self._cluster.autoscalers.scaling(ref)
        return f"HorizontalPodAutoscaler {', '.join(names)}" if names else ""


class ClusterParts(Struct, frozen=True):
    """What a cluster is made of."""

    session: Session
    clock: Clock
    means: Dependencies
    budget: Budget
    elector: Elector | None
    identity: str
    version: str
    acts: bool
    """Whether it is opened to act on it, and not only to look."""
    home: str
    """The daemon's own namespace."""
    patience: float
    """How many seconds the first observation of a kind may wait for its first list."""


class KubernetesCluster:
    """A Cluster. Made by Kubernetes.open, which also ends it."""

    def __init__(self, parts: ClusterParts, tasks: asyncio.TaskGroup) -> None:
        self.pods, self.nodes, self.workloads = PodStore(), NodeStore(), WorkloadStore()
        self.jobs = JobStore(parts.clock.now)
        self.autoscalers, self._budgets = AutoscalerStore(), BudgetStore(self.pods)
        self._parts, self._group = parts, tasks
        session, clock, means = parts.session, parts.clock, parts.means
        self._events = Events(session, parts.budget, clock, parts.identity)
        self._scaler = Scaler(session, means.discovery, parts.budget, clock, self._assume)
        self._marker = Marker(session, means.discovery, parts.budget)
        self._resizer = Resizer(session, means.discovery, parts.budget)
        writer = PodWriter(session, means.discovery, parts.budget, clock)
        records, patience = Records(session, parts.home), 3 * parts.patience
        restorer_parts = RestorerParts(
            session, parts.budget, clock, records, writer, lambda: self.leading, parts.identity, patience
        )
        self._restorer = Restorer(restorer_parts)
        self._pod_actions = PodActions(
            (self.pods, self.nodes), writer, self._restorer.evict, self._allowed, self._events.begin
        )
        self._jobs = Jobs(session, parts.budget, clock, means.times, self.jobs)
        self._metrics = MetricsClient(session, means.discovery, means.times, means.namespaces)
        self._custom = AggregatedMetrics(session, means.discovery, means.times, parts.patience)
        self._kubelets = Kubelets(session, means.times)
        self._snapshot = LiveSnapshot(self)
        self._always = {
            _POD: follow_pods(means, self.pods),
            _NODE: follow_nodes(means, self.nodes),
            _AUTOSCALER: follow_autoscalers(means, self.autoscalers),
        }
        self._restoring = False
        self._kinds: dict[Kind, tuple[Informer, asyncio.Task[None]]] = {}
        self._tasks = [tasks.create_task(informer.run()) for informer in self._always.values()]
        if parts.elector is not None:
            self._tasks.append(tasks.create_task(parts.elector.run()))

    async def close(self) -> None:
        """Stop all watches, stop leading, and release the lease."""
        tasks = [*self._tasks, *[task for _, task in self._kinds.values()]]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._restorer.close()
        await self._events.close()
        if self._parts.elector is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await self._parts.elector.release()

    @property
    def leading(self) -> bool:
        """Whether this daemon may act now."""
        return self._parts.elector is None or self._parts.elector.leading

    def _allowed(self) -> Answer | None:
        return None if self.leading else NOT_LEADING

    @property
    def honours_deletion_costs(self) -> bool:
        """Whether the server's own controllers look at deletion costs: those of Kubernetes 1.22 and later do."""
        return honours_deletion_costs(self._parts.version)

    def restoring(self) -> list[Underway]:
        """The pods that are being recreated."""
        return self._restorer.underway

    @property
    def confirmed(self) -> float:
        """When the server last proved current the pods that it shows us; 0: never."""
        return self._always[_POD].confirmed()

    @property
    def nodes_confirmed(self) -> float:
        """When the server last proved current the nodes that it shows us; 0: never."""
        return self._always[_NODE].confirmed()

    def confirmed_for(self, ref: Ref) -> float:
        """When it last proved current what it shows of a workload. Nodes and other kinds have no part in that."""
        followed = self._kinds.get((ref.api_version, ref.kind))
        if followed is None:
            return 0.0
        return min(self._always[_POD].confirmed(ref.namespace), followed[0].confirmed_for(ref.namespace, ref.name))

    def knows_jobs(self, namespace: str) -> bool:
        """Whether the Jobs of a namespace were ever read."""
        followed = self._kinds.get(JOB_KIND)
        return followed is not None and followed[0].confirmed(namespace) > 0

    def waiting(self) -> tuple[Pod, ...]:
        """The pods that wait for a node. Whoever asks places pods, so the first call also resumes restorations that
        other daemons left unfinished."""
        if self._parts.acts and not self._restoring:
            self._restoring = True
            self._tasks.append(self._group.create_task(self._restorer.run()))
        return self.pods.places().pending()

    def disruptions(self) -> tuple[DisruptionBudget, ...] | None:
        """All PodDisruptionBudgets; None: they have not been read. The first call starts the watch, so that only those
        who ask need the right to read them."""
        follower = self._always.get(_BUDGET)
        if follower is None:
            follower = self._always[_BUDGET] = follow_budgets(self._parts.means, self._budgets)
            self._tasks.append(self._group.create_task(follower.run()))
        return self._budgets.all() if follower.confirmed() > 0 else None

    def _followers(self) -> list[Informer]:
        return [*self._always.values(), *[follower for follower, _ in self._kinds.values()]]

    async def observe(self, now: float, kinds: frozenset[Kind]) -> LiveSnapshot:
        """The cluster as it is now. Only the first observation of a kind waits, for its first list."""
        if kinds != self._kinds.keys():
            self._follow(kinds)
        fresh = [follower for follower in self._followers() if not follower.awaited]
        if fresh:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._parts.patience):
                    for follower in fresh:
                        await follower.settled()
            for follower in fresh:
                follower.awaited = True
        return self._snapshot

    def _follow(self, kinds: frozenset[Kind]) -> None:
        for kind in self._kinds.keys() - kinds:
            _, task = self._kinds.pop(kind)
            task.cancel()
            self.workloads.retain(kind, "", ())
            if kind == JOB_KIND:
                self.jobs.clear()
        for kind in sorted(kinds - self._kinds.keys()):
            means = self._parts.means
            follower = follow_jobs(means, self.jobs) if kind == JOB_KIND else follow_kind(means, kind, self.workloads)
            self._kinds[kind] = follower, self._group.create_task(follower.run())

    async def usage(self, now: float) -> Readings:
        """What every pod uses, from the metrics API. Never raises."""
        return await self._metrics.usage(now)

    async def node_usage(self, now: float) -> Readings:
        """What every node uses, from the metrics API. Never raises."""
        return await self._metrics.node_usage(now)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        """What the custom and external metrics APIs answer. Never raises."""
        return await self._custom.read(queries, now)

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        """What a node's kubelet itself says, asked through the API server. Never raises."""
        return await self._kubelets.summary(node, now, part, within)

    @contextlib.asynccontextmanager
    async def pulls(self, take: Callable[[Pull], None]) -> AsyncIterator[Followed]:
        """Call `take` for every image pull that the kubelets' Events report. Never raises."""
        follower = follow_pulls(self._parts.means, PullSink(take))
        task = asyncio.create_task(follower.run(), name="follow pulls")
        try:
            yield follower
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _count(self, action: Scale | Create) -> Answer:
        if isinstance(action, Scale):
            return await self._scaler.scale(action, self._allowed)
        return await self._jobs.create(action, self._allowed)

    async def act(self, action: Action) -> Answer:  # noqa: PLR0911  # one for each kind
        """Carry an action out, once, if what it was judged on still holds. Errors are reported in the answer."""
        if not self.leading:
            return NOT_LEADING
        match action:
            case Scale() | Create():
                answer = await self._count(action)
                self._events.after_scale(action, answer)
                return answer
            case Mark():
                answer = await self._marker.mark(action, self._allowed)
                if answer.result == "done" and not action.pod:
                    self._note(action)
                return answer
            case Remove():
                return await self._jobs.remove(action, self._allowed)
            case Resize():
                return await self._resizer.resize(action, self._allowed)
            case Announce():
                return await self._events.announce(action)
            case Bind() | Evict() | Nominate():
                return await self._pod_actions.act(action)

    def _assume(self, action: Scale, scale: WireScale) -> None:
        """Store our own write before the watch reports it, so that no decision is based on the old count."""
        workload = self.workloads.get(action.workload)
        if workload is not None and workload.uid == action.uid:
            version = scale.metadata.resource_version or workload.version
            self.workloads.put(
                msgspec.structs.replace(workload, replicas=scale.replicas, version=version), listed=False
            )

    def _note(self, mark: Mark) -> None:
        """Store our own mark at once, too: what it says of a count of 0 must be known no later than that count."""
        workload = self.workloads.get(mark.workload)
        if workload is not None and workload.uid == mark.uid:
            noted = msgspec.structs.replace(workload, annotations=mark.on(workload.annotations))
            self.workloads.put(noted, listed=False)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this whenever a pod waits for a node or frees room on one, or a node appears, changes or goes."""
        for stirred in (self.pods.stirred, self.nodes.stirred):
            stirred.callbacks.append(callback)

    def problems(self) -> dict[Kind, str]:
        """What is wrong with each watched kind (pods and nodes too) and with the lease, one line each."""
        followers = {**self._always, **{kind: follower for kind, (follower, _) in self._kinds.items()}}
        problems = {kind: follower.problem for kind, follower in followers.items() if follower.problem}
        if self._parts.elector is not None and self._parts.elector.fault:
            problems[_LEASE] = self._parts.elector.fault
        if self._restorer.fault:
            problems[_RECORD] = self._restorer.fault
        return problems

    def describe(self) -> Description:
        """What a status page shows."""
        elector = self._parts.elector
        problems = {"/".join(kind): text for kind, text in self.problems().items()}
        return Description(
            server=self._parts.session.host,
            version=self._parts.version,
            identity=self._parts.identity,
            leading=self.leading,
            leader=elector.leader if elector else self._parts.identity,
            confirmed=self.confirmed,
            problems=problems,
            skipped=self._metrics.skipped
            + self._kubelets.skipped
            + sum(follower.skipped for follower in self._followers()),
            events_dropped=self._events.dropped,
        )
