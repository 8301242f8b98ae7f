"""Preemption: which lesser pods of a node give way for one that fits nowhere.

Knows who is lesser and who is spared; knows nothing of how pods go, nor of where they come back. See there for who is
on a node, short for how little suffices, budgets for who may go at all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isnan, nan
from typing import Annotated, ClassVar, Literal

from elasticd.api import (
    CRITICAL,
    SPARE,
    Line,
    Meta,
    Nodes,
    Pod,
    PoolObservation,
    PoolPolicy,
    Spared,
    Strategy,
    Turn,
    Victims,
    field,
    hookimpl,
    possible_namespace,
    rooted,
)

from .budgets import budget_of, within
from .short import Short, helps, mend_of, short_of, spared_from, until_it_fits
from .there import CLASSES, Group, Rank, There, there_is


class Preemption(Strategy, tag="preemption", frozen=True):
    """Lesser pods give way: those of lower priority (PriorityClass), and of equal priority those of a lower
    restartPolicy, Never below OnFailure below Always. Nobody goes where it would not suffice, for every resource, port
    and disk that the pod lacks; pods that are leaving already count as gone.

    The least go first: by rank, then the larger memory request, then the larger use of CPU (series cpu of pods; what is
    requested where that is not known), then by name. Whoever is not needed stays, the most important first. No more go
    than PodDisruptionBudgets allow. Of several nodes that one is taken whose victims are, in this order: lower in their
    highest rank, lower in the sum of their priorities, fewer, and whose important ones started last.

    Never a victim: static and DaemonSets' pods, those that are leaving or not there yet, those that have annotation
    elasticd.io/do-not-disrupt, whom the options spare, and those that another scheduler places, unless `others`: it
    puts another pod in their place before the room can be used.

    Mode "paper" is the thesis's: restartPolicy alone ranks, one that Never restarts preempts nobody, pods go in the
    order above until there is room and nobody is kept back, and the first node by score that can make room is taken.
    It knows neither priorities nor `min_run` nor `most_victims`. The thesis lists evictions before it is known whether
    they suffice; its table 6-11 needs the dry run that is made here.
    Sources: thesis, 4.3.3; kube-scheduler, default preemption (reprieve, and choice of the node).
    """

    alone: ClassVar[bool] = True

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
    others: Annotated[
        bool,
        Meta(description="whether pods may give way that another scheduler places than the one they give way for"),
    ] = False

    def __post_init__(self) -> None:
        """Refuse namespaces that spare nobody."""
        for index, name in enumerate(self.spare_namespaces):
            if not possible_namespace(name):
                why = "; a policy without this strategy spares all" if name == "*" else ""
                raise ValueError(f'spare_namespaces[{index}]: must be the name of a namespace, is "{name}"{why}')

    def reads(self) -> tuple[str, ...]:
        """What pods use of CPU."""
        return ("cpu",)

    def brings_nothing(self, policy: PoolPolicy, hooks: frozenset[str]) -> tuple[str, ...]:
        """Where nothing binds pods, nothing forces others away."""
        if not self.only_forced or "select_nodes" in hooks:
            return ()
        return ("only_forced: nobody ever gives way: no strategy here binds pods",)

    @hookimpl
    def select_victims(
        self, pod: Pod, node: int, nodes: Nodes, observation: PoolObservation, forced: bool
    ) -> Victims | Spared | None:
        """The victims on this node, the least first."""
        found = self._on(pod, node, nodes, observation)
        if not self.only_forced or forced or found is None:
            return found
        return _NOT_FORCED if isinstance(found, Victims) and found.pods else _FORCED_ALONE

    @hookimpl
    def explain_victims(self, node: int, nodes: Nodes, observation: PoolObservation, policy: PoolPolicy) -> Line:
        """All on this node but those that never give way, the least first, and which option keeps each."""
        order = self._order(observation.use.get("cpu", {}))
        there = sorted(there_is(nodes.names[node], nodes.pods(node)).movable.pods, key=order)
        return Line(tuple([self._turn(pod, policy.pool.scheduler, observation.at) for pod in there]), self._rule())

    def _turn(self, pod: Pod, scheduler: str, at: float) -> Turn:
        if self.mode == "paper" and self._rank(pod)[1] == CLASSES["Always"]:
            return Turn(pod, "Highest", "no restartPolicy is above Always")
        option = next(self._options(pod, scheduler, at), "")
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

    def _on(self, pod: Pod, node: int, nodes: Nodes, seen: PoolObservation) -> Victims | Spared | None:
        there, rank = there_is(nodes.names[node], nodes.pods(node)), self._rank(pod)
        if not (self._has(there.movable, rank) or self._has(there.asking, rank) or there.leaving):
            return self._nobody(there, rank)
        short = short_of(pod, node, nodes, there)
        if short is None:
            return None
        if not short.amounts and not short.clashing:
            return Victims((), why="others are leaving")
        return self._choice(pod, short, there, seen)

    def _choice(self, pod: Pod, short: Short, there: There, seen: PoolObservation) -> Victims | Spared:
        """Those who make room for what it is short of, or why nobody does."""
        order = self._candidates(there, pod, seen)
        chosen = until_it_fits(order, short) if self.mode == "paper" else spared_from(order, short)
        if not chosen:
            return self._kept(pod, short, there, seen, order)
        before = seen.gave_way.get(pod.uid, 0)
        if self.mode == "product" and before + len(chosen) > self.most_victims:
            return self._too_many(before, len(chosen))
        cost = () if self.mode == "paper" else self._cost(chosen, seen.at)
        return Victims(tuple(chosen), cost, self._why(pod, chosen, seen))

    def _too_many(self, before: int, now: int) -> Spared:
        """More would not help by itself where those who would go now are few enough: then others gave way in vain."""
        why = f"more would have to go than most_victims = {self.most_victims}"
        if before:
            why += f", as {_have(before)} given way for it already"
        mend = f"most_victims {_OWN} is {before + now} or more" if now > self.most_victims else ""
        return Spared(why, mend)

    def _rank(self, pod: Pod) -> Rank:
        """How much a pod matters; the lesser gives way."""
        kind = CLASSES[pod.needs.restart]
        if self.mode == "paper":
            return 0, kind
        return pod.needs.priority, kind if self.restart_classes else 0

    def _has(self, group: Group, rank: Rank) -> bool:
        """Whether one of these matters less."""
        if self.mode == "paper":
            return (0, group.lowest_class) < rank
        return (group.lowest if self.restart_classes else (group.lowest[0], 0)) < rank

    def _nobody(self, there: There, rank: Rank) -> Spared:
        """Why there is nobody of whom to ask whether he may go."""
        fixed = next((why for why, group in there.fixed if self._has(group, rank)), "")
        return Spared(f"lesser pods {fixed}") if fixed else _NOBODY_LESSER

    def _candidates(self, there: There, waiting: Pod, seen: PoolObservation) -> list[Pod]:
        """Those who may have to go, the least first; no more than budgets allow."""
        rank, scheduler = self._rank(waiting), waiting.needs.scheduler
        lesser = [
            pod
            for pod in there.movable.pods
            if self._rank(pod) < rank and not any(self._options(pod, scheduler, seen.at))
        ]
        return within(sorted(lesser, key=self._order(seen.use.get("cpu", {}))), seen.budgets)

    def _order(self, use: Mapping[str, float]) -> Callable[[Pod], tuple[Rank, float, float, str, str]]:
        """Who goes first."""
        return lambda pod: (
            self._rank(pod),
            -pod.counted.get("memory", 0.0),
            -_cpu(pod, use),
            pod.namespace,
            pod.name,
        )

    def _options(self, pod: Pod, scheduler: str, at: float) -> Iterator[str]:
        """Each option that keeps a pod where it is, whatever pod of this scheduler needs its room."""
        if not self.others and pod.needs.scheduler != scheduler:
            yield "others"
        if pod.namespace in self.spare_namespaces:
            yield "spare_namespaces"
        if pod.needs.priority >= self.spare_priority:
            yield "spare_priority"
        if not self.spare_labels.items().isdisjoint(pod.labels.items()):
            yield "spare_labels"
        if pod.needs.local and not self.local_storage:
            yield "local_storage"
        if self.mode != "paper" and self.min_run and (pod.started is None or at - pod.started < self.min_run):
            yield "min_run"

    def _spares(self, pod: Pod, waiting: Pod, at: float) -> tuple[Spared, ...]:
        """What those say of several pods, and that pods ask to be left alone."""
        found = tuple(self._of_several(option, pod) for option in self._options(pod, waiting.needs.scheduler, at))
        return found if rooted(pod) is None else (*found, _ASKING)

    def _of_several(self, option: str, pod: Pod) -> Spared:
        """What an option says of several pods, one of which is this, and what would have to be otherwise."""
        match option:
            case "others":
                return Spared("are placed by another scheduler", f"others {_OWN} is true")
            case "spare_namespaces":
                return Spared("are in spare_namespaces", f"spare_namespaces {_OWN} does not have {pod.namespace}")
            case "spare_priority":
                more = f"spare_priority {_OWN} is more than {pod.needs.priority}"
                return Spared(f"have spare_priority = {self.spare_priority} or more", more)
            case "spare_labels":
                return Spared("have one of spare_labels", f"spare_labels {_OWN} has none of theirs")
            case "local_storage":
                return Spared("have local storage", f"local_storage {_OWN} is true")
            case _:
                run = f"{self.min_run:g} s"
                return Spared(f"have run for less than min_run = {run}", f"lesser pods have run for {run}")

    def _of_one(self, option: str) -> tuple[str, str]:
        """What it says of a pod, one word and a sentence."""
        return {
            "others": ("OtherScheduler", "another scheduler places it"),
            "spare_namespaces": ("Spared", "its namespace is in spare_namespaces"),
            "spare_priority": ("Spared", f"its priority is spare_priority = {self.spare_priority} or more"),
            "spare_labels": ("Spared", "it has one of spare_labels"),
            "local_storage": ("LocalStorage", "what it has stored on its node would be lost"),
            "min_run": ("Young", f"it has run for less than min_run = {self.min_run:g} s"),
        }[option]

    def _kept(self, waiting: Pod, short: Short, there: There, seen: PoolObservation, order: Sequence[Pod]) -> Spared:
        """Why those of them that may go do not suffice, by what keeps the others whose leaving would help."""
        rank, going = self._rank(waiting), {pod.uid for pod in order}
        if not (self._has(there.movable, rank) or self._has(there.asking, rank)):
            return self._nobody(there, rank)
        reasons: dict[tuple[Spared, ...], list[Pod]] = {}
        for pod in (*there.movable.pods, *there.asking.pods):
            if pod.uid not in going and self._rank(pod) < rank and helps(pod, short):
                spared = self._spares(pod, waiting, seen.at)
                reasons.setdefault(spared + budget_of(pod, seen.budgets, order, spent=bool(spared)), []).append(pod)
        who = "others" if order else "lesser pods"
        if reasons:
            told = " or ".join(sorted({first.why for first, *_ in reasons}))
            return Spared(f"{who} {told}", mend_of(reasons, short, order))
        fixed = {why: [one for one in group.pods if self._rank(one) < rank] for why, group in there.fixed}
        if until_it_fits([*order, *chain.from_iterable(fixed.values())], short):
            return Spared(f"{who} {' or '.join(why for why, pods in fixed.items() if pods)}")
        return Spared("all lesser pods together would not do")

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
        before = seen.gave_way.get(pod.uid, 0)
        said += [f"{_have(before)} given way for it already"] if before else []
        return "; ".join(said)


_OWN = "of strategy preemption"
_NOBODY_LESSER = Spared("no pod there matters less")
_ASKING = Spared(f"have annotation {SPARE}", f"lesser pods have no annotation {SPARE}")
_FORCED_ALONE = Spared("nobody does for pods whose binding does not say resourceNotFit force")
_NOT_FORCED = Spared(_FORCED_ALONE.why, f"its binding says resourceNotFit force, or only_forced {_OWN} is false")


def _cpu(pod: Pod, use: Mapping[str, float]) -> float:
    """What it uses, in cores; where that is not known, what it requests."""
    found = use.get(_name(pod), nan) if use else nan
    return pod.counted.get("cpu", 0.0) if isnan(found) else found


def _have(count: int) -> str:
    return f"{count} {'has' if count == 1 else 'have'}"


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _of(victims: Iterable[Pod]) -> list[str]:
    return sorted({one.needs.restart for one in victims}, key=CLASSES.__getitem__)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Preemption."""
    return [Preemption]
