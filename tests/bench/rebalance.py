"""What a plan of moves costs on 5,000 nodes with 150,000 pods, and the cycles that lead to one. `make bench`.

One node in ten is overloaded. What a cycle costs is CPU time of this process alone, which keeps to one core: it asks an
API server in another process, on other cores (with the argument `shared` on the same), over HTTP, with the daemon's own
code. A daemon that begins lists all nodes and pods; one that runs reads, for each look, what they use, and what a watch
tells. Every figure is printed with the machine it was measured on; nothing here passes or fails.
"""

import asyncio
import gc
import logging
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from elasticd.base.clock import WallClock
from elasticd.base.decode import convert
from elasticd.cluster.kubernetes import Kubernetes, KubernetesCluster
from elasticd.cluster.kubernetes.credentials import Credentials
from elasticd.cluster.kubernetes.session import Request, Session
from elasticd.cluster.kubernetes.wire.convert import to_pod
from elasticd.cluster.kubernetes.wire.objects import Codec, WirePod
from elasticd.daemon import tune_interpreter
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.journal import Journal
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.model.moves import Look, MoveDecision, PoolPast
from elasticd.model.placement import PoolObservation
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect, Strategy
from elasticd.model.workload import Answers, Node, Pod
from elasticd.registry import Hooks, discover
from elasticd.runtime.pools.placer import Placer
from elasticd.sources.poller import opened
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import site
from tests.cluster.kubernetes.fake import write_kubeconfig
from tests.kit.large_cluster import CHANGED, CPU, HOT, MEMORY, NODES, PAGE, PODS_A_NODE, Served, load, served, share
from tests.kit.measuring import alone, machine, resident
from tests.kit.pools import GIB, NOW, node, pod

MOST = 250
"""Moves in a look, at most."""

CYCLE, PLAN = 1.5, 0.3
"""Seconds of one core for a whole cycle."""

LATER = 16.0
"""Seconds after which there is something new to read."""

CYCLES = 3
"""Cycles before the one that is measured: the first ones take memory that later ones have."""

By = dict[str, dict[str, float]]


def use_of(nodes: Sequence[str]) -> tuple[By, By]:
    """What nodes use, and what their pods do: each the same part, give or take a half."""
    of_nodes: By = {"cpu": {}, "memory": {}}
    of_pods: By = {"cpu": {}, "memory": {}}
    for index, name in enumerate(nodes):
        for series, size in (("cpu", CPU), ("memory", MEMORY)):
            of_nodes[series][name] = load(index) * size
            found = of_pods[series]
            for k in range(PODS_A_NODE):
                found[f"shop/{name}-{k}"] = load(index) * size * share(k)
    return of_nodes, of_pods


def modelled() -> tuple[tuple[Node, ...], dict[str, list[Pod]]]:
    """The nodes and pods as records."""
    nodes = tuple(node(f"n{i:04d}", cpu=CPU, memory=MEMORY) for i in range(NODES))
    more = {"started": NOW - 3600, "ready": True}
    pods = {
        one.name: [
            pod(
                f"{one.name}-{k}",
                0.4,
                1.5 * GIB,
                one.name,
                owner=("ReplicaSet", f"web-{k}", f"rs-{i // 50}-{k}"),
                **more,
            )
            for k in range(PODS_A_NODE)
        ]
        for i, one in enumerate(nodes)
    }
    return nodes, pods


def strategies(*names: str) -> tuple[Strategy, ...]:
    """Strategies with their defaults."""
    known = discover().strategies
    return tuple(convert({"type": name}, known[name].type, "bench") for name in names)


def forget_peak() -> None:
    """Count the peak from here on."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def policy(per_look: int) -> PoolPolicy:
    """One that moves pods, everything else at its default."""
    chosen, moves = strategies("filters", "load-balance", "rebalance"), MovesTable(per_look=per_look)
    return PoolPolicy(name="bench", pool=PoolSelect(), strategies=chosen, mode="act", moves=moves)


def looked(columns: NodeTable, now: float) -> PoolPast:
    """Twenty looks that were all like this one."""
    use = {series: np.array(columns.use(series)) for series in ("cpu", "memory")}
    return PoolPast(tuple(Look(now - 30 * back, columns.names, use) for back in reversed(range(20))))


def case(
    ledger: NodeTableBuilder, nodes: tuple[Node, ...], pods: Any, known: tuple[By, By], per_look: int, now: float = NOW
) -> PoolCase:
    """All that a plan depends on."""
    rule, (of_nodes, of_pods) = policy(per_look), known
    columns = ledger.columns(nodes, pods, of_nodes)
    observation = PoolObservation(now, use=of_pods, confirmed=now)
    return PoolCase(rule, observation, columns, Hooks(rule.strategies), past=looked(columns, now))


class Timed(Hooks):
    """Hooks that note the seconds of CPU time that the answers to each take."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        super().__init__(strategies)
        self.seconds: dict[str, float] = {}

    def ask(self, hook: str, *arguments: Any) -> Answers:
        """As Hooks has it."""
        begun = process_time()
        answers = super().ask(hook, *arguments)
        self.seconds[hook] = self.seconds.get(hook, 0.0) + process_time() - begun
        return answers


def parts(one: PoolCase) -> str:
    """What of a plan strategies take, by hook."""
    timed = Timed(one.policy.strategies)
    begun = process_time()
    plan_moves(PoolCase(one.policy, one.observation, one.columns, timed, past=one.past))
    whole = process_time() - begun
    taken = {**timed.seconds, "the plan itself": whole - sum(timed.seconds.values())}
    shown = [f"{what} {1000 * seconds:.0f} ms" for what, seconds in taken.items()]
    return f"{1000 * whole:.0f} ms: {', '.join(shown)}"


def told(decisions: Sequence[MoveDecision]) -> str:
    """How many of what."""
    moved = sum(one.verdict == "move" for one in decisions)
    return f"{moved} pods move, {len(decisions) - moved} do not"


def plans() -> None:
    """Plans alone."""
    nodes, pods = modelled()
    known = use_of([one.name for one in nodes])
    ledger = NodeTableBuilder()
    begun = process_time()
    ledger.columns(nodes, pods)
    print(f"{NODES} nodes, {NODES * PODS_A_NODE} pods, {NODES // HOT} nodes overloaded")
    print(f"columns: {process_time() - begun:.2f} s, while nothing changes", end=" ")
    begun = process_time()
    ledger.columns(nodes, pods)
    print(f"{1000 * (process_time() - begun):.0f} ms")
    for per_look in (5, 100, MOST):
        one = case(ledger, nodes, pods, known, per_look)
        forget_peak()
        before, begun = resident(), process_time()
        decisions = plan_moves(one).decisions
        seconds = process_time() - begun
        grown = resident(peak=True) - before
        print(
            f"plan of at most {per_look}: {seconds:.2f} s{judged(seconds, PLAN)}, {grown:.0f} MiB more at its peak; "
            f"{told(decisions)}"
        )
    print(f"  once more, of {parts(case(ledger, nodes, pods, known, MOST))}")


def judged(seconds: float, goal: float) -> str:
    """Whether that is good enough."""
    return f", goal {goal:g} s: {'met' if seconds <= goal else 'missed'}"


class Meter:
    """Seconds of CPU and MiB of memory, from when it is made."""

    def __init__(self) -> None:
        forget_peak()
        self._memory, self._begun, self._since = resident(), process_time(), perf_counter()
        self._last = self._begun
        self._parts: list[str] = []

    def mark(self, what: str) -> None:
        """So far this was done."""
        now = process_time()
        self._parts.append(f"{what} {now - self._last:.2f} s")
        self._last = now

    def show(self, what: str, decisions: Sequence[MoveDecision], goal: float = 0.0) -> None:
        """Print it."""
        seconds, grown = self._last - self._begun, resident(peak=True) - self._memory
        print(f"{what}: {seconds:.2f} s of one core{judged(seconds, goal) if goal else ''};", end=" ")
        print(f"{perf_counter() - self._since:.2f} s by the clock; {grown:.0f} MiB; {told(decisions)}")
        print(f"  {', '.join(self._parts)}")


async def until(true: Callable[[], bool]) -> None:
    """Wait for what the other process does."""
    while not true():  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def begins(cluster: KubernetesCluster, meter: Meter, clock: WallClock, known: tuple[By, By]) -> None:
    """From the API's lists to a plan. What is used a daemon that begins cannot know for long enough: it is given."""
    snapshot = await cluster.observe(clock.now(), frozenset())
    await until(lambda: bool(cluster.snapshot.confirmed and cluster.snapshot.nodes_confirmed))
    meter.mark("lists fetched, decoded, converted and stored")
    nodes, pods = snapshot.nodes(), snapshot.on_nodes()
    meter.mark("pods by node")
    one = case(NodeTableBuilder(), nodes, pods, known, 100, clock.now())
    meter.mark("columns")
    decisions = plan_moves(one).decisions
    meter.mark("plan")
    meter.show("a daemon that begins, once", decisions)


async def apart(kubeconfig: str) -> None:
    """The list of pods again: what it costs to fetch it, to decode it, and to make the model's records of that."""
    decoding, both = Codec(WirePod, lambda found: found), Codec(WirePod, to_pod, lambda: 0.0)
    seconds, size = [0.0, 0.0, 0.0], 0
    async with Session(Credentials(kubeconfig, ""), 60.0) as session:
        for page in range(NODES * PODS_A_NODE // PAGE):
            times = [process_time()]
            asked = Request(verb="list", path="/api/v1/pods", resource="", params={"continue": str(page)})
            body = await session.send(asked)
            times.append(process_time())
            for codec in (decoding, both):
                codec.page(body)
                times.append(process_time())
            seconds = [
                so_far + after - before for so_far, before, after in zip(seconds, times, times[1:], strict=False)
            ]
            size += len(body)
    fetch, decode, convert = seconds
    print(f"  of that pods: {fetch:.2f} s to fetch {size / 1e6:.0f} MB over HTTP, without TLS,", end=" ")
    print(f"{decode:.2f} s to decode them, {convert - decode:.2f} s to convert them")


async def goes_on(cluster: KubernetesCluster, server: Served, clock: WallClock) -> None:
    """From what all pods and nodes use, and what has changed about some, to a plan."""
    placer = Placer(cluster, lambda now: cluster.observe(now, frozenset()), Journal(), clock)
    placer.apply([policy(100)])
    (pool,) = placer.pools
    async with opened([ResourceMetrics(nodes=True)], site(cluster, clock)) as pollers:
        placer.set_sources(pollers, wait=None)
        begun = clock.now()
        snapshot = await placer.look(begun)
        await until(lambda: snapshot.budgets() is not None)
        for cycle in range(CYCLES):
            await placer.case(pool, snapshot, begun + cycle * LATER, lambda: None)
        meter, now = Meter(), begun + CYCLES * LATER
        server.pipe.send("change")
        last = "n{:04d}-{}".format(*divmod(CHANGED[-1], PODS_A_NODE))
        await until(lambda: (pod := cluster.snapshot.pod_store.get("shop", last)) is not None and not pod.ready)
        meter.mark(f"{len(CHANGED)} events of a watch")
        serving = placer.router.serving(pool.policy, pool.hooks.fetched or frozenset())
        ((said,),) = (await placer.router.read({lambda: None: serving}, now)).values()
        assert said.received == now, "it was read anew"
        meter.mark("use fetched and decoded")
        one = await placer.case(pool, snapshot, now, lambda: None)
        assert one is not None
        meter.mark("use looked at, columns")
        past = looked(one.columns, now)
        decisions = plan_moves(PoolCase(one.policy, one.observation, one.columns, one.hooks, past=past)).decisions
        meter.mark("plan")
        meter.show("a cycle of a daemon that runs", decisions, CYCLE)


async def cycles(server: Served, kubeconfig: str) -> None:
    """Both."""
    known, clock = use_of([f"n{i:04d}" for i in range(NODES)]), WallClock()
    meter = Meter()
    async with Kubernetes(kubeconfig=kubeconfig, request_timeout=60).open(clock, elect=False) as cluster:
        await begins(cluster, meter, clock, known)
        await apart(kubeconfig)
        await goes_on(cluster, server, clock)


def main() -> None:
    """Print the machine and the figures."""
    print(machine())
    tune_interpreter()  # as the daemon does
    taken = alone()
    plans()
    logging.disable()  # the server lacks what is not asked for here, which is told
    with (
        served(frozenset() if sys.argv[1:] == ["shared"] else taken) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        asyncio.run(cycles(server, write_kubeconfig(Path(folder), server.url)))


if __name__ == "__main__":
    main()
