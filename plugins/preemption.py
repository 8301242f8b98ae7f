"""Preemption: which lesser pods of a node give way for one that fits nowhere.

Knows who is lesser, who is spared and how little suffices; knows nothing of how pods go, nor of where they come back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan, nan
from typing import Annotated, Literal

from elasticd.api import (
    CRITICAL,
    Derived,
    DisruptionBudget,
    Line,
    Meta,
    Nodes,
    Pod,
    PoolObservation,
    Spared,
    Strategy,
    Struct,
    Turn,
    Victims,
    field,
    hookimpl,
    needed,
    rooted,
)

CLASSES: Mapping[str, int] = {"Always": 2, "OnFailure": 1, "Never": 0}
"""How much a pod matters by its restartPolicy (thesis, 4.3)."""

Rank = tuple[int, int]


class Preemption(Strategy, tag="preemption", frozen=True):
    """Lesser pods give way: those of lower priority (PriorityClass), and of equal priority those of a lower
    restartPolicy, Never below OnFailure below Always. Nobody goes where it would not suffice, for every resource, port
    and disk that the pod lacks; pods that are leaving already count as gone.

    The least go first: by rank, then the larger memory request, then the larger use of CPU (series cpu of pods; what is
    requested where that is not known), then by name. Whoever is not needed stays, the most important first. No more go
    than PodDisruptionBudgets allow. Of several nodes that one is taken whose victims are, in this order: lower in their
    highest rank, lower in the sum of their priorities, fewer, and whose important ones started last.

    Never a victim: static and DaemonSets' pods, those that are leaving or not there yet, those that have annotation
    elasticd.io/do-not-disrupt, and whom the options spare.

    Mode "paper" is the thesis's: restartPolicy alone ranks, one that Never restarts preempts nobody, pods go in the
    order above until there is room and nobody is kept back, and the first node by score that can make room is taken.
    It knows neither priorities nor `min_run` nor `most_victims`. The thesis lists evictions before it is known whether
    they suffice; its table 6-11 needs the dry run that is made here.
    Sources: thesis, 4.3.3; kube-scheduler, default preemption (reprieve, and choice of the node).
    """

    mode: Annotated[
        Literal["product", "paper"], Meta(description="paper: by restartPolicy alone, as in the thesis, 4.3.3")
    ] = "product"
    only_forced: Annotated[
        bool, Meta(description="only for pods whose binding says resourceNotFit force; else for all that fit nowhere")
    ] = False
    restart_classes: Annotated[
        bool,
        Meta(description="of equal priority, restartPolicy Always counts more than OnFailure, and that than Never"),
    ] = True
    min_run: Annotated[
        float, Meta(ge=0, le=86400, description="seconds that a pod has run before it may have to give way")
    ] = 60.0
    most_victims: Annotated[int, Meta(ge=1, le=1000, description="pods that give way for one, in all")] = 10
    spare_namespaces: Annotated[tuple[str, ...], Meta(description="whose pods never give way")] = ("kube-system",)
    spare_labels: Annotated[dict[str, str], Meta(description="pods that have one of these labels never give way")] = (
        field(default_factory=lambda: {"app.kubernetes.io/name": "elasticd"})
    )
    spare_priority: Annotated[
        int,
        Meta(ge=-(2**31), le=CRITICAL, description="pods of this priority or more never give way"),
    ] = CRITICAL
    local_storage: Annotated[
        bool, Meta(description="whether pods may give way that have storage which is lost then, such as emptyDir")
    ] = False

    def reads(self) -> tuple[str, ...]:
        """What pods use of CPU."""
        return ("cpu",)

    @hookimpl
    def select_victims(
        self, pod: Pod, node: int, nodes: Nodes, observation: PoolObservation, forced: bool
    ) -> Victims | Spared | None:
        """The victims on this node, the least first."""
        there, rank = _there(nodes.names[node], nodes.pods(node)), self._rank(pod)
        may_go = bool(there.movable) and self._lowest(there) < rank
        if self.only_forced and not forced:
            return _NOT_FORCED
        if not (may_go or there.leaving):
            return _NOBODY_LESSER
        short = _short(pod, node, nodes, there)
        if short is None:
            return None
        if not short.amounts and not short.clashing:
            return Victims((), why="others are leaving")
        return self._choice(pod, short, there, observation)

    @hookimpl
    def explain_victims(self, node: int, nodes: Nodes, observation: PoolObservation) -> Line:
        """All on this node but those that never give way, the least first, and which option keeps each."""
        use = observation.use.get("cpu", {})
        there = _there(nodes.names[node], nodes.pods(node)).movable
        return Line(
            tuple([self._turn(pod, observation.at) for pod in sorted(there, key=self._order(use))]), self._rule()
        )

    def _turn(self, pod: Pod, at: float) -> Turn:
        if self.mode == "paper" and self._rank(pod)[1] == CLASSES["Always"]:
            return Turn(pod, "Highest", "no restartPolicy is above Always")
        option = self._option(pod, at)
        return Turn(pod, *self._of_one(option)) if option else Turn(pod)

    def _rule(self) -> str:
        """To whom pods give way, and how many."""
        classes = "of a higher restartPolicy (Never, OnFailure, Always)"
        if self.mode == "paper":
            rule = f"to those {classes}, whatever their priority"
        else:
            equal = f", and of equal priority to those {classes}" if self.restart_classes else ""
            rule = f"to those of higher priority{equal}; at most {self.most_victims} for one pod"
        return f"{rule}; only to those whose binding says resourceNotFit force" if self.only_forced else rule

    def _choice(self, pod: Pod, short: "_Short", there: "_There", seen: PoolObservation) -> Victims | Spared:
        """Those who make room for what it is short of, or why nobody does."""
        rank = self._rank(pod)
        order = self._candidates(there, rank, seen)
        chosen = _until_it_fits(order, short) if self.mode == "paper" else _spared_from(order, short)
        if not chosen:
            return self._kept([one for one in there.movable if self._rank(one) < rank], short, seen, order)
        if self.mode == "product" and seen.gave_way.get(pod.uid, 0) + len(chosen) > self.most_victims:
            need = seen.gave_way.get(pod.uid, 0) + len(chosen)
            why = f"more would have to go than most_victims = {self.most_victims}"
            return Spared(why, f"most_victims of strategy preemption is {need} or more")
        cost = () if self.mode == "paper" else self._cost(chosen, seen.at)
        return Victims(tuple(chosen), cost, self._why(pod, chosen, seen))

    def _rank(self, pod: Pod) -> Rank:
        """How much a pod matters; the lesser gives way."""
        kind = CLASSES[pod.needs.restart]
        if self.mode == "paper":
            return 0, kind
        return pod.needs.priority, kind if self.restart_classes else 0

    def _lowest(self, there: "_There") -> Rank:
        if self.mode == "paper":
            return 0, there.lowest_class
        return there.lowest if self.restart_classes else (there.lowest[0], 0)

    def _candidates(self, there: "_There", rank: Rank, seen: PoolObservation) -> list[Pod]:
        """Those who may have to go, the least first; no more than budgets allow."""
        lesser = [pod for pod in there.movable if self._rank(pod) < rank and not self._option(pod, seen.at)]
        return _within(sorted(lesser, key=self._order(seen.use.get("cpu", {}))), seen.budgets)

    def _order(self, use: Mapping[str, float]) -> Callable[[Pod], tuple[Rank, float, float, str, str]]:
        """Who goes first."""
        return lambda pod: (
            self._rank(pod),
            -pod.counted.get("memory", 0.0),
            -_cpu(pod, use),
            pod.namespace,
            pod.name,
        )

    def _option(self, pod: Pod, at: float) -> str:
        """Which option keeps a pod where it is; empty: none does."""
        if pod.namespace in self.spare_namespaces:
            return "spare_namespaces"
        if pod.needs.priority >= self.spare_priority:
            return "spare_priority"
        if not self.spare_labels.items().isdisjoint(pod.labels.items()):
            return "spare_labels"
        if pod.needs.local and not self.local_storage:
            return "local_storage"
        if self.mode == "paper" or not self.min_run:
            return ""
        return "min_run" if pod.started is None or at - pod.started < self.min_run else ""

    def _spares(self, pod: Pod, at: float) -> Spared | None:
        """What that says of several pods, and what would have to be otherwise; None: none does."""
        match self._option(pod, at):
            case "spare_namespaces":
                return Spared("are in spare_namespaces", f"spare_namespaces {_OWN} does not have {pod.namespace}")
            case "spare_priority":
                more = f"spare_priority {_OWN} is more than {pod.needs.priority}"
                return Spared(f"have spare_priority = {self.spare_priority} or more", more)
            case "spare_labels":
                return Spared("have one of spare_labels", f"spare_labels {_OWN} has none of theirs")
            case "local_storage":
                return Spared("have local storage", f"local_storage {_OWN} is true")
            case "min_run":
                run = f"{self.min_run:g} s"
                return Spared(f"have run for less than min_run = {run}", f"lesser pods have run for {run}")
            case _:
                return None

    def _of_one(self, option: str) -> tuple[str, str]:
        """What it says of a pod, one word and a sentence."""
        return {
            "spare_namespaces": ("Spared", "its namespace is in spare_namespaces"),
            "spare_priority": ("Spared", f"its priority is spare_priority = {self.spare_priority} or more"),
            "spare_labels": ("Spared", "it has one of spare_labels"),
            "local_storage": ("LocalStorage", "what it has stored on its node would be lost"),
            "min_run": ("Young", f"it has run for less than min_run = {self.min_run:g} s"),
        }[option]

    def _kept(self, lesser: Sequence[Pod], short: "_Short", seen: PoolObservation, order: Sequence[Pod]) -> Spared:
        """Why those of them that may go do not suffice, by what keeps the others."""
        if not lesser:
            return _NOBODY_LESSER
        going = {pod.uid for pod in order}
        staying = [pod for pod in lesser if pod.uid not in going]
        kept = {why for pod in staying for why in [self._spares(pod, seen.at) or _budget(pod, seen.budgets)] if why}
        if not kept:
            return Spared("all lesser pods together would not do")
        told = sorted(kept, key=lambda one: one.why)
        would_do = bool(_until_it_fits(lesser, short))
        mend = " and ".join(one.mend for one in told) if would_do else ""
        return Spared(f"{'others' if order else 'lesser pods'} {' or '.join(one.why for one in told)}", mend)

    def _cost(self, victims: Sequence[Pod], at: float) -> tuple[float, ...]:
        """As kube-scheduler compares nodes, with the restart class behind the priority."""
        highest, kind = max(self._rank(pod) for pod in victims)
        # Each adds 2^31, so that many of a negative priority are not less than few.
        total = sum(pod.needs.priority + 2**31 for pod in victims)
        starts = [at if pod.started is None else pod.started for pod in victims if pod.needs.priority == highest]
        return highest, kind, total, len(victims), -min(starts)

    def _why(self, pod: Pod, victims: Sequence[Pod], seen: PoolObservation) -> str:
        """In a few words, and what was not known."""
        below, priority = _of(victims), pod.needs.priority
        if self.mode == "product":
            below = _of(one for one in victims if one.needs.priority >= priority)
        lower = sum(one.needs.priority < priority for one in victims) if self.mode == "product" else 0
        use = seen.use.get("cpu", {})
        unknown = sum(isnan(use.get(_name(one), nan)) for one in victims)
        said = [f"{lower} of lower priority"] if lower else []
        said += [f"restartPolicy {pod.needs.restart} goes before {' and '.join(below)}"] if below else []
        said += [f"of {unknown} the use of CPU is not known, so the request counts"] if unknown else []
        return "; ".join(said)


_OWN = "of strategy preemption"
_NOBODY_LESSER = Spared("no pod there matters less")
_NOT_FORCED = Spared("nobody does for pods whose binding does not say resourceNotFit force")


class _There(Struct, frozen=True, gc=False):
    """What does not change on a node until a pod comes or goes: who may ever have to go, and who is leaving."""

    movable: tuple[Pod, ...]
    leaving: tuple[Pod, ...]
    lowest: Rank = (0, 0)
    lowest_class: int = 0


def _look(name: str, pods: Sequence[Pod]) -> _There:
    movable = tuple(pod for pod in pods if _movable(pod, name))
    ranks = [(pod.needs.priority, CLASSES[pod.needs.restart]) for pod in movable]
    leaving = tuple(pod for pod in pods if pod.deleted)
    return _There(movable, leaving, min(ranks, default=(0, 0)), min((kind for _, kind in ranks), default=0))


_there: Derived[str, Sequence[Pod], _There] = Derived(_look)


def _movable(pod: Pod, node: str) -> bool:
    """Whether it is there, and neither leaves nor must stay."""
    return not pod.deleted and pod.node == node and rooted(pod) is None


class _Short(Struct, frozen=True, gc=False):
    """What a pod lacks on a node once all who are leaving have left: whole amounts, and the UIDs of who has its ports
    and disks."""

    amounts: dict[str, int]
    clashing: frozenset[str]


def _short(pod: Pod, node: int, nodes: Nodes, there: _There) -> _Short | None:
    """None: it lacks nothing here now, so that nobody's leaving would help."""
    short = {
        name: lack
        for name, amount in needed(pod).items()
        if amount and (lack := int(nodes.requested(name)[node]) + amount - int(nodes.allocatable(name)[node])) > 0
    }
    picky = pod.needs.ports or pod.needs.disks
    clashing = [one for one in nodes.pods(node) if _clash(pod, one)] if picky else []
    if not short and not clashing:
        return None
    for name in short:
        short[name] -= sum(_takes(one, name) for one in there.leaving)
    staying = frozenset(one.uid for one in clashing if not one.deleted)
    return _Short({name: lack for name, lack in short.items() if lack > 0}, staying)


def _takes(pod: Pod, resource: str) -> int:
    return needed(pod).get(resource, 0)


def _clash(pod: Pod, other: Pod) -> bool:
    """Whether one node cannot give both what they ask for."""
    mine, its = pod.needs, other.needs
    if any(one.clashes(another) for one in mine.ports for another in its.ports):
        return True
    return any(one.clashes(another) for one in mine.disks for another in its.disks)


def _until_it_fits(order: Iterable[Pod], short: _Short) -> list[Pod]:
    """The first of these until there is room; nobody where all of them would not do."""
    left, clashing, chosen = dict(short.amounts), set(short.clashing), list[Pod]()
    for pod in order:
        if not left and not clashing:
            break
        chosen.append(pod)
        clashing.discard(pod.uid)
        left = {name: lack for name, amount in left.items() if (lack := amount - _takes(pod, name)) > 0}
    return [] if left or clashing else chosen


def _spared_from(order: Sequence[Pod], short: _Short) -> list[Pod]:
    """All of these but those that are not needed, of whom the most important are kept first; nobody where all of them
    would not do."""
    taken = [needed(pod) for pod in order]
    over = {name: sum([one.get(name, 0) for one in taken]) - lack for name, lack in short.amounts.items()}
    if any(amount < 0 for amount in over.values()) or not short.clashing <= {pod.uid for pod in order}:
        return []
    chosen: list[Pod] = []
    for pod, takes in zip(reversed(order), reversed(taken), strict=True):
        if pod.uid in short.clashing or any(takes.get(name, 0) > amount for name, amount in over.items()):
            chosen.append(pod)
        else:
            over = {name: amount - takes.get(name, 0) for name, amount in over.items()}
    return chosen[::-1]


def _within(order: list[Pod], budgets: tuple[DisruptionBudget, ...]) -> list[Pod]:
    """Those of them, from the first on, that budgets let go."""
    if not budgets:
        return order
    known, found, spent = _by_namespace("", budgets), list[Pod](), dict[str, int]()
    for pod in order:
        concerned = [one for one in known.get(pod.namespace, ()) if pod.uid in one.pods]
        keys = [f"{one.namespace}/{one.name}" for one in concerned]
        if all(spent.get(key, 0) < one.allowed for key, one in zip(keys, concerned, strict=True)):
            found.append(pod)
            spent.update({key: spent.get(key, 0) + 1 for key in keys})
    return found


def _budget(pod: Pod, budgets: tuple[DisruptionBudget, ...]) -> Spared | None:
    """The PodDisruptionBudget that keeps it while others may go: the strictest of its own."""
    concerned = [one for one in _by_namespace("", budgets).get(pod.namespace, ()) if pod.uid in one.pods]
    if not concerned:
        return None
    one = min(concerned, key=lambda one: (one.allowed, one.name))
    name = f"PodDisruptionBudget {one.namespace}/{one.name}"
    return Spared(f"are kept by {name}", f"{name} lets more of its pods go")


def _sorted(_: str, budgets: tuple[DisruptionBudget, ...]) -> dict[str, list[DisruptionBudget]]:
    found: dict[str, list[DisruptionBudget]] = {}
    for one in budgets:
        found.setdefault(one.namespace, []).append(one)
    return found


_by_namespace: Derived[str, tuple[DisruptionBudget, ...], dict[str, list[DisruptionBudget]]] = Derived(_sorted)


def _cpu(pod: Pod, use: Mapping[str, float]) -> float:
    """What it uses, in cores; where that is not known, what it requests."""
    found = use.get(_name(pod), nan) if use else nan
    return pod.counted.get("cpu", 0.0) if isnan(found) else found


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _of(victims: Iterable[Pod]) -> list[str]:
    return sorted({one.needs.restart for one in victims}, key=CLASSES.__getitem__)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Preemption."""
    return [Preemption]
