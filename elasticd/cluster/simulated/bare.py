"""Simulated pods that no controller made: they come at their times, run, and are gone.

Knows when each comes and how long it runs; knows nothing of who puts it on a node.
"""

from collections.abc import Iterable

from elasticd.cluster.simulated.pods import SimulatedPod, SimulatedWorkload

BARE = ("v1", "Pod")
"""What pods without a controller are under: no policy is about workloads of this kind."""


class Bare(SimulatedWorkload, eq=False):
    """The pods of one table, without a controller to create or recreate them."""

    def controller_of(self, pod: SimulatedPod) -> tuple[str, str, str]:
        """They have none."""
        return ("", "", "")

    def surplus(self) -> list[SimulatedPod]:
        """None: they are not counted."""
        return []

    def missing(self) -> list[int]:
        """None: they come at their times."""
        return []

    def times(self) -> Iterable[tuple[float, int]]:
        """When each comes, in seconds after the start, and its number."""
        return ((self.table.at + self.table.every * index, index + 1) for index in range(self.replicas))

    def pod_name(self, serial: int) -> str:
        """NAME, or NAME-1 to NAME-replicas."""
        return self.ref.name if self.replicas == 1 else f"{self.ref.name}-{serial}"

    def begin(self, pod: SimulatedPod, at: float) -> float | None:
        """A pod runs; for how many seconds it will."""
        return self.table.run_seconds

    def lost(self, pod: SimulatedPod) -> bool:
        """Whether a pod that is gone comes back: only if it was evicted to be restored."""
        return pod.evicted is not None
