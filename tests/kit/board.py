"""A cluster of nodes and pods for tests of placing: what is bound is bound, and the test says what is refused.

Knows what an API server does with bindings and evictions; knows nothing of who asks.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.model.actions import Action, Announce, Answer, Bind, BindClaim, Evict, Nominate, TryEvict
from elasticd.model.placement import DisruptionBudget
from elasticd.model.volumes import Storage
from elasticd.model.workload import Node, Pod
from elasticd.ports.cluster import Kind, Snapshot
from tests.kit.clusters import Scripted, Shown
from tests.kit.volumes import with_claim


class Board(Scripted):
    """A cluster that does what it is told, unless `refuse` gives another answer. `done` are the actions that it was
    asked for, with the time."""

    def __init__(self, clock: Clock, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        super().__init__()
        self._clock = clock
        self.nodes = {node.name: node for node in nodes}
        self.pods = {pod.name: pod for pod in pods}
        self.limits: tuple[DisruptionBudget, ...] | None = ()
        self.storage = Storage()
        self.behind = 0.0
        """How many seconds old what it shows is."""
        self.silent: tuple[type[Action], ...] = ()
        """The actions that are never answered."""
        self.lingers = False
        """Whether an evicted pod stays until `remove` is called, as one that is slow to end."""
        self.refuse: Callable[[Action], Answer | None] = lambda _: None
        self.done: list[tuple[float, Action]] = []
        self.announced: list[Announce] = []
        self.trials: list[tuple[float, str]] = []
        """When the eviction of which pod was tried out."""
        self.callback: Callable[[], None] = lambda: None

    def on_change(self, callback: Callable[[], None]) -> None:
        self.callback = callback

    async def observe(self, now: float, kinds: frozenset[Kind] = frozenset()) -> Snapshot:
        return Standing(self, now)

    async def act(self, action: Action) -> Answer:
        if isinstance(action, self.silent):
            await asyncio.Event().wait()
        if isinstance(action, Announce):
            self.announced.append(action)
            return Answer("done")
        if isinstance(action, TryEvict):
            self.trials.append((self._clock.now(), action.workload.name))
            return self.refuse(action.evict) or Answer("done")
        self.done.append((self._clock.now(), action))
        if (answer := self.refuse(action)) is not None:
            return answer
        match action:
            case Bind():
                self.put(replace(self.pods[action.workload.name], node=action.node, nominated=""))
            case Evict() if self.lingers:
                self.put(replace(self.pods[action.workload.name], deleted=True))
            case Evict():
                self.remove(action.workload.name)
            case Nominate():
                self.put(replace(self.pods[action.workload.name], nominated=action.node))
            case BindClaim():
                self.storage = with_claim(self.storage, action)
            case _:
                raise AssertionError(action)
        return Answer("done")

    def put(self, pod: Pod) -> None:
        self.pods[pod.name] = pod

    def add(self, *things: Node | Pod) -> None:
        """They come, and whoever heeds is told."""
        for one in things:
            if isinstance(one, Node):
                self.nodes[one.name] = one
            else:
                self.put(one)
        self.callback()

    def remove(self, *names: str) -> None:
        """These pods are gone."""
        for name in names:
            del self.pods[name]
        self.callback()

    def tried(self, kind: type[Action]) -> list[tuple[float, str]]:
        """When which pod was to be bound, evicted or noted."""
        return [(at, action.workload.name) for at, action in self.done if isinstance(action, kind)]


class Standing(Shown):
    """The board as it is."""

    def __init__(self, board: Board, now: float) -> None:
        super().__init__(nodes=tuple(board.nodes[name] for name in sorted(board.nodes)))
        self.confirmed = now - board.behind
        self._board = board

    def pending(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._board.pods.values() if not pod.node)

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self._board.pods.values():
            if pod.node:
                found.setdefault(pod.node, []).append(pod)
        return found

    def budgets(self) -> tuple[DisruptionBudget, ...] | None:
        return self._board.limits

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def storage(self) -> Storage:
        return self._board.storage
