"""What keeps the old pods of surges from going: the same that keeps pods from being moved, asked again just before.

Pure. Knows protections, freezes, `[disruption]` and PodDisruptionBudgets; knows no steps.
"""

from collections.abc import Callable, Iterable
from functools import cached_property

from msgspec.structs import replace

from elasticd.decision.disruption import disruption_of, refusal
from elasticd.decision.pool.preemption import Budgets
from elasticd.decision.workload.vetoes import forbidden
from elasticd.kit.evictability import rooted
from elasticd.model.actions import Evict
from elasticd.model.disruption import DisruptionState, Refused
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Pod, Workload


class Departures:
    """What keeps pods from going at one time (`kit.surge.Restraints`). A pod that was let go counts for the next.

    `disruption` is called when it is first needed; `budgets` None: PodDisruptionBudgets are not known.
    """

    def __init__(
        self, at: float, disruption: Callable[[], DisruptionState], budgets: Iterable[DisruptionBudget] | None
    ) -> None:
        self._at, self._disruption = at, disruption
        self._budgets = Budgets(budgets or (), known=budgets is not None)
        self._gone: list[Evict] = []

    @cached_property
    def _state(self) -> DisruptionState:
        return self._disruption()

    def protection(self, workload: Workload, pod: Pod) -> Refused | None:
        if why := rooted(pod):
            return why
        frozen = forbidden(workload.annotations, workload.replicas, workload.replicas - 1, self._at)
        return ("Frozen", f"{workload.ref}: {frozen}") if frozen else None

    def delay(self, pod: Pod, evict: Evict) -> Refused | None:
        gone = tuple(disruption for other in self._gone if (disruption := disruption_of(other, self._at)))
        state = replace(self._state, recent=(*self._state.recent, *gone)) if gone else self._state
        return refusal(state, [evict]) or self._budgets.refusal(pod)

    def let_go(self, pod: Pod, evict: Evict) -> None:
        """Count a pod that goes now."""
        self._gone.append(evict)
        self._budgets.spend(pod)
