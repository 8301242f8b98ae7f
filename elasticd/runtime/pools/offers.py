"""A pod that several policies select is offered to one after the other, until one has a place for it.

Knows which pool comes next, and what those before said; knows nothing of how a place is found.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from elasticd.model.placement import PodDecision
from elasticd.model.policy import PoolSelect
from elasticd.model.workload import Pod
from elasticd.runtime.pools.pool import Pool


class Offers:
    """The pods that wait, in one tick over these pools in their order."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = pools
        self._shared: set[str] = set()
        self._said: dict[str, list[PodDecision]] = {}
        self._passed: set[str] = set()

    def begin(self, pool: Pool, own: Iterable[Pod]) -> None:
        """The turn of a pool, with the pods that are offered to it."""
        later = self._acting_after(pool)
        self._shared = {pod.uid for pod in own if any(select.has(pod) for select in later)} if later else set()
        self._passed = set()

    def _acting_after(self, pool: Pool) -> list[PoolSelect]:
        place = self._pools.index(pool) if pool in self._pools else len(self._pools)
        return [other.policy.pool for other in self._pools[place + 1 :] if other.policy.mode == "act"]

    def shares(self, pod: Pod) -> bool:
        """Whether a later pool that acts selects the pod too."""
        return pod.uid in self._shared

    def passes_on(self, decision: PodDecision) -> bool:
        """Whether the pod has no place in this pool and is offered to the next, so that this decision is not the last
        word. One that keeps a node for it, or takes that back, is."""
        waits = decision.verdict == "wait" and not decision.node and not decision.actions
        if not waits or decision.uid not in self._shared:
            return False
        self._said.setdefault(decision.uid, []).append(decision)
        self._passed.add(decision.uid)
        return True

    def goes_on(self, pod: Pod) -> bool:
        """Whether the pod was passed on in this turn."""
        return pod.uid in self._passed

    def combined(self, decision: PodDecision) -> PodDecision:
        """The last word about a pod: where it waits, with what each of its pools says."""
        earlier = self._said.pop(decision.uid, [])
        if not earlier or decision.verdict != "wait":
            return decision
        all_of_them = [*earlier, decision]
        return replace(
            decision,
            message=_by_policy((each.policy, each.message) for each in all_of_them),
            mend=_by_policy((each.policy, each.mend) for each in all_of_them),
        )


def _by_policy(texts: Iterable[tuple[str, str]]) -> str:
    """The texts, each after the name of its policy."""
    return "; ".join(f"by policy {policy}: {text}" for policy, text in texts if text)
