"""Preemption: chooses which lesser pods of a node are evicted for a pod that fits nowhere.

Knows which pods are lesser and which are spared; knows nothing of how pods are evicted, nor of where they run again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import isnan, nan
from typing import Annotated, ClassVar, Literal

from elasticd.api import (
    DisruptionBudget,
    EvictionOrder,
    Meta,
    Nodes,
    Pod,
    PoolObservation,
    PoolPolicy,
    PoolStrategy,
    Spared,
    Turn,
    Victims,
    field,
    hookimpl,
)
from elasticd.kit import (
    CRITICAL,
    going_claim,
    has_run_for,
    knows_volumes,
    local_claim,
    possible_namespace,
    sparing_annotation,
)

from .protection import CLASSES, Cause, Group, Lesser, NodePods, Rank, budgets_of, mends_of, node_pods, within
from .shortage import Shortage, helps, shortage_of, spared_from, until_it_fits


class Preemption(PoolStrategy, tag="preemption", frozen=True):
    """Evicts lesser pods for a pod that fits nowhere: those of lower priority (PriorityClass), and of equal
    priority those of a lower restartPolicy, Never below OnFailure below Always. No pod is evicted where that would
    not suffice for every resource, port and disk that the waiting pod lacks, and for its anti-affinity and spread
    constraints; pods that are being deleted count as gone.

    The order of eviction is: lower rank, then larger memory request, then larger use of CPU (series cpu of pods; the
    request where that is not known), then name. Pods whose eviction is not needed stay, the most important first. No
    more are evicted than PodDisruptionBudgets allow. Of several nodes the one is chosen whose victims have the lower
    highest rank, then the lower sum of priorities, then are fewer, and whose important ones started last.

    Never a victim: static pods and pods of DaemonSets, elasticd's own, pods that are being deleted or not there yet,
    pods that ask for it (elasticd.io/do-not-disrupt, or its like of Cluster Autoscaler and Karpenter), pods that the
    options spare, and, unless `others`, pods that another scheduler places: it puts another pod in their place before
    the room can be used.

    Mode "paper" is the thesis's: restartPolicy alone ranks, a pod that Never restarts preempts none, pods are evicted
    in the order above until there is room and none is kept back, and the first node by score that can make room is
    taken. It has neither priorities nor `min_run` nor `most_victims`. The thesis lists evictions before it is known
    whether they suffice; its table 6-11 needs the dry run that is made here.

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
        float, Meta(ge=0, le=86400, description="seconds that a pod has run before it may be preempted")
    ] = 60.0
    most_victims: Annotated[int, Meta(ge=1, le=1000, description="pods that are preempted for one, in all")] = 10
    spare_namespaces: Annotated[tuple[str, ...], Meta(description="whose pods are never preempted")] = ("kube-system",)
    spare_labels: Annotated[
        dict[str, str], Meta(description="pods that have one of these labels are never preempted")
    ] = field(default_factory=lambda: {"app.kubernetes.io/name": "elasticd"})
    spare_priority: Annotated[
        int, Meta(ge=-(2**31), le=CRITICAL, description="pods of this priority or more are never preempted")
    ] = CRITICAL
    local_storage: Annotated[
        bool, Meta(description="whether pods may be preempted that have storage which is lost then, such as emptyDir")
    ] = False
    others: Annotated[
        bool,
        Meta(description="whether pods may be preempted that are placed by another scheduler than the preemptor"),
    ] = False

    def __post_init__(self) -> None:
        for index, name in enumerate(self.spare_namespaces):
            if not possible_namespace(name):
                why = "; a policy without this strategy spares all" if name == "*" else ""
                raise ValueError(f'spare_namespaces[{index}]: must be the name of a namespace, is "{name}"{why}')

    def reads(self) -> tuple[str, ...]:
        return ("cpu",)

    def brings_nothing(self, policy: PoolPolicy, hooks: frozenset[str]) -> tuple[str, ...]:
        """Warn that `only_forced` has no effect where no strategy binds pods."""
        if not self.only_forced or "select_nodes" in hooks:
            return ()
        return ("only_forced: no pod is ever preempted: no strategy here binds pods",)

    @hookimpl
    def select_victims(
        self, pod: Pod, node: int, nodes: Nodes, observation: PoolObservation, forced: bool, missing: Mapping[str, int]
    ) -> Victims | Spared | None:
        """The victims on this node, the least first; or why there are none."""
        answer = self._victims_on(pod, node, nodes, observation, missing)
        if not self.only_forced or forced or answer is None:
            return answer
        if isinstance(answer, Spared):
            return _FORCED_ALONE
        return _NOT_FORCED if answer.pods else answer

    @hookimpl
    def explain_victims(
        self, node: int, nodes: Nodes, observation: PoolObservation, policy: PoolPolicy
    ) -> EvictionOrder:
        """The eviction order of this node's pods, with the option that keeps each; without those that are never
        evicted."""
        order = self._order(observation.use.get("cpu", {}))
        pods = sorted(node_pods(nodes.names[node], nodes.pods(node)).movable.pods, key=order)
        return EvictionOrder(
            tuple([self._turn(pod, policy.pool.scheduler, nodes, observation.at) for pod in pods]), self._rule()
        )

    def _turn(self, pod: Pod, scheduler: str, nodes: Nodes, at: float) -> Turn:
        if self.mode == "paper" and self._rank(pod)[1] == CLASSES["Always"]:
            return Turn(pod, "Highest", "no restartPolicy is above Always")
        reasons = {
            "": ("", ""),
            "others": ("OtherScheduler", "another scheduler places it"),
            "spare_namespaces": ("Spared", "its namespace is in spare_namespaces"),
            "spare_priority": ("Spared", f"its priority is spare_priority = {self.spare_priority} or more"),
            "spare_labels": ("Spared", "it has one of spare_labels"),
            "local_storage": ("LocalStorage", "what it has stored on its node would be lost"),
            "claims": ("ClaimsUnknown", "it is not known whether its claims are bound to a folder of its node"),
            "going_claims": ("ClaimsGoing", "a claim of it is being deleted, and would go with it"),
            "min_run": ("Young", f"it has run for less than min_run = {self.min_run:g} s"),
        }
        return Turn(pod, *reasons[next(self._options(pod, scheduler, nodes, at), "")])

    def _rule(self) -> str:
        classes = "of a higher restartPolicy (Never, OnFailure, Always)"
        if self.mode == "paper":
            rule = f"for those {classes}, whatever their priority"
        else:
            equal = f", and of equal priority for those {classes}" if self.restart_classes else ""
            rule = f"for those of higher priority{equal}; at most {self.most_victims} for one pod"
        return f"{rule}; only for those whose binding says resourceNotFit force" if self.only_forced else rule

    def _victims_on(
        self, pod: Pod, node: int, nodes: Nodes, observation: PoolObservation, missing: Mapping[str, int]
    ) -> Victims | Spared | None:
        groups, rank = node_pods(nodes.names[node], nodes.pods(node)), self._rank(pod)
        if not groups.leaving and not self._has_lesser(rank, groups.movable, groups.asking):
            return self._nobody_lesser(groups, rank)
        short = shortage_of(pod, node, nodes, groups.leaving, missing)
        if short is None:
            return None
        if not short.amounts and not short.clashing:
            return Victims((), why="others are leaving")
        lesser = self._lesser_pods(groups, pod, short, nodes, observation)
        free = [victim for victim, options in lesser if not options]
        budgets = observation.budgets
        evictable = within((victim, budgets_of(victim, budgets)) for victim in free) if budgets else free
        chosen = self._choose(evictable, short)
        if not chosen:
            return self._explain_spared(pod, short, groups, self._with_causes(lesser, budgets), observation)
        if refusal := self._too_many(pod, len(chosen), observation):
            return refusal
        cost = () if self.mode == "paper" else self._cost(chosen, observation.at)
        return Victims(tuple(chosen), cost, self._explain(pod, chosen, observation))

    def _choose(self, order: Sequence[Pod], short: Shortage) -> list[Pod]:
        """The victims in this order that make enough room; none where all together would not."""
        return until_it_fits(order, short) if self.mode == "paper" else spared_from(order, short)

    def _too_many(self, pod: Pod, victims: int, observation: PoolObservation) -> Spared | None:
        """A refusal where more than `most_victims` would be evicted for the pod. It has a remedy only where the present
        victims alone are too many; else earlier evictions were in vain."""
        before = observation.gave_way.get(pod.uid, 0)
        if self.mode == "paper" or before + victims <= self.most_victims:
            return None
        why = f"more would have to go than most_victims = {self.most_victims}"
        if before:
            why += f", as {_have(before)} been preempted for it already"
        mend = f"most_victims {_OWN} is {before + victims} or more"
        return Spared(why, (mend,) if victims > self.most_victims else ())

    def _rank(self, pod: Pod) -> Rank:
        """How important a pod is; the lower rank is evicted."""
        kind = CLASSES[pod.needs.restart]
        if self.mode == "paper":
            return 0, kind
        return pod.needs.priority, kind if self.restart_classes else 0

    def _has_lesser(self, rank: Rank, *groups: Group) -> bool:
        if self.mode == "paper":
            return any((0, group.lowest_class) < rank for group in groups)
        return any((group.lowest if self.restart_classes else (group.lowest[0], 0)) < rank for group in groups)

    def _nobody_lesser(self, groups: NodePods, rank: Rank) -> Spared:
        """Why there is no lesser pod that could ever be evicted."""
        fixed = next((why for why, group in groups.fixed if self._has_lesser(rank, group)), "")
        return Spared(f"lesser pods {fixed}") if fixed else _NOBODY_LESSER

    def _lesser_pods(
        self, groups: NodePods, waiting: Pod, short: Shortage, nodes: Nodes, observation: PoolObservation
    ) -> list[tuple[Pod, tuple[str, ...]]]:
        """The pods of lower rank that are not fixed to their node, the least first, with the options that keep each."""
        rank, scheduler, paper = self._rank(waiting), waiting.needs.scheduler, self.mode == "paper"
        order = self._order(observation.use.get("cpu", {}))
        lesser = [
            pod
            for pod in (*groups.movable.pods, *groups.asking.pods)
            # The thesis follows the order alone, so it also evicts pods whose eviction provides nothing.
            if self._rank(pod) < rank and (paper or helps(pod, short))
        ]
        return [(pod, tuple(self._options(pod, scheduler, nodes, observation.at))) for pod in sorted(lesser, key=order)]

    def _order(self, use: Mapping[str, float]) -> Callable[[Pod], tuple[Rank, float, float, str, str]]:
        return lambda pod: (self._rank(pod), -pod.counted.get("memory", 0.0), -_cpu(pod, use), pod.namespace, pod.name)

    def _options(self, pod: Pod, scheduler: str, nodes: Nodes, at: float) -> Iterator[str]:
        """Each option that keeps a pod from being evicted for a pod of this scheduler, and its own annotation."""
        if not self.others and pod.needs.scheduler != scheduler:
            yield "others"
        if pod.namespace in self.spare_namespaces:
            yield "spare_namespaces"
        if pod.needs.priority >= self.spare_priority:
            yield "spare_priority"
        if not self.spare_labels.items().isdisjoint(pod.labels.items()):
            yield "spare_labels"
        if not self.local_storage:
            yield from _storage_of(pod, nodes)
        if going_claim(pod, nodes.volumes):
            yield "going_claims"
        if self.mode != "paper" and self.min_run:
            seconds = has_run_for(pod, at)
            if seconds is None or seconds < self.min_run:
                yield "min_run"
        if annotation := sparing_annotation(pod):
            yield annotation

    def _with_causes(
        self, lesser: Sequence[tuple[Pod, tuple[str, ...]]], budgets: tuple[DisruptionBudget, ...]
    ) -> Lesser:
        highest = max((pod.needs.priority for pod, options in lesser if "spare_priority" in options), default=0)
        kept = {(option, pod.namespace) for pod, options in lesser for option in options}
        causes = {key: self._cause_of_option(*key, highest) for key in kept}
        causes_of = ((pod, tuple([causes[option, pod.namespace] for option in options])) for pod, options in lesser)
        return Lesser([(pod, its_causes, budgets_of(pod, budgets)) for pod, its_causes in causes_of])

    def _cause_of_option(self, option: str, namespace: str, highest: int) -> Cause:
        """Text for an option that keeps several pods of a namespace, and the remedy; `highest` is their highest
        priority."""
        run = f"{self.min_run:g} s"
        at_most = f"have spare_priority = {self.spare_priority} or more"
        return {
            "others": Cause("are placed by another scheduler", f"others {_OWN} is true"),
            "spare_namespaces": Cause("are in spare_namespaces", f"spare_namespaces {_OWN} does not have {namespace}"),
            "spare_priority": Cause(at_most, f"spare_priority {_OWN} is more than {highest}"),
            "spare_labels": Cause("have one of spare_labels", f"spare_labels {_OWN} has none of theirs"),
            "local_storage": Cause("have local storage", f"local_storage {_OWN} is true"),
            "claims": Cause("have claims whose volumes are not known", _READABLE),
            "going_claims": Cause("have claims that are being deleted", "lesser pods have no such claims"),
            "min_run": Cause(f"have run for less than min_run = {run}", f"lesser pods have run for {run}"),
        }.get(option) or Cause(f"have annotation {option}", f"lesser pods have no annotation {option}")

    def _explain_spared(
        self, waiting: Pod, short: Shortage, groups: NodePods, lesser: Lesser, observation: PoolObservation
    ) -> Spared:
        """Why the pods that may be evicted do not suffice, by what keeps the others whose eviction would help."""
        rank = self._rank(waiting)
        if not self._has_lesser(rank, groups.movable, groups.asking):
            return self._nobody_lesser(groups, rank)
        order = lesser.going()
        subject = "others" if order else "lesser pods"
        if causes := lesser.kept(short, order):
            reasons = " or ".join(sorted({first.why for first, *_ in causes}))
            needed = partial(self._needed, waiting, short, lesser, observation)
            return Spared(f"{subject} {reasons}", mends_of(causes, lesser.lifts(short), needed))
        fixed = {why: [pod for pod in group.pods if self._rank(pod) < rank] for why, group in groups.fixed}
        if until_it_fits([*order, *chain.from_iterable(fixed.values())], short):
            return Spared(f"{subject} {' or '.join(why for why, pods in fixed.items() if pods)}")
        return Spared("all lesser pods together would not do")

    def _needed(
        self, waiting: Pod, short: Shortage, lesser: Lesser, observation: PoolObservation, lifted: frozenset[Cause]
    ) -> set[str] | None:
        """The remedies with which enough pods could be evicted if `lifted` kept none; None: they would not suffice."""
        chosen = self._choose(lesser.going(lifted), short)
        if not chosen:
            return None
        mends, refusal = {cause.mend for cause in lifted}, self._too_many(waiting, len(chosen), observation)
        if refusal is None:
            return mends
        return {*mends, *refusal.mends} if refusal.mends else None

    def _cost(self, victims: Sequence[Pod], at: float) -> tuple[float, ...]:
        """The sort key by which nodes are compared, as in kube-scheduler, with the restartPolicy's class after the
        priority."""
        highest, kind = max(self._rank(pod) for pod in victims)
        # Adding 2^31 makes each term positive: many victims of negative priority must not count less than few.
        total = sum(pod.needs.priority + 2**31 for pod in victims)
        starts = [at if pod.started is None else pod.started for pod in victims if pod.needs.priority == highest]
        return highest, kind, total, len(victims), -min(starts)

    def _explain(self, pod: Pod, victims: Sequence[Pod], observation: PoolObservation) -> str:
        below, priority = _restart_policies(victims), pod.needs.priority
        if self.mode == "product":
            below = _restart_policies(victim for victim in victims if victim.needs.priority >= priority)
        lower = sum(victim.needs.priority < priority for victim in victims) if self.mode == "product" else 0
        use = observation.use.get("cpu", {})
        unknown = sum(isnan(use.get(f"{victim.namespace}/{victim.name}", nan)) for victim in victims)
        clauses = [f"{lower} of lower priority"] if lower else []
        clauses += [f"restartPolicy {pod.needs.restart} goes before {' and '.join(below)}"] if below else []
        clauses += [f"of {unknown} the use of CPU is not known, so the request counts"] if unknown else []
        before = observation.gave_way.get(pod.uid, 0)
        clauses += [f"{_have(before)} been preempted for it already"] if before else []
        return "; ".join(clauses)


_OWN = "of strategy preemption"
_READABLE = "persistent volumes and claims can be read (right to list and watch them)"
_NOBODY_LESSER = Spared("no pod there matters less")
_FORCED_ALONE = Spared("nobody does for pods whose binding does not say resourceNotFit force")
_NOT_FORCED = Spared(_FORCED_ALONE.why, (f"only_forced {_OWN} is false",))


def _storage_of(pod: Pod, nodes: Nodes) -> Iterator[str]:
    """What keeps a pod that might come to another node without what it has stored here, or of which that is not
    known."""
    volumes = nodes.volumes
    if pod.needs.local or local_claim(pod, volumes, nodes):
        yield "local_storage"
    elif not knows_volumes(pod, volumes):
        yield "claims"


def _cpu(pod: Pod, use: Mapping[str, float]) -> float:
    """The pod's use of CPU in cores; where that is not known, its request."""
    cores = use.get(f"{pod.namespace}/{pod.name}", nan) if use else nan
    return pod.counted.get("cpu", 0.0) if isnan(cores) else cores


def _have(count: int) -> str:
    return f"{count} {'has' if count == 1 else 'have'}"


def _restart_policies(victims: Iterable[Pod]) -> list[str]:
    return sorted({victim.needs.restart for victim in victims}, key=CLASSES.__getitem__)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    """Preemption."""
    return [Preemption]
