"""Limit `rollout`: while pods of an old template are replaced, the count is left alone.

Knows what the workload says of its rollout; knows nothing of how a cluster tells that.
"""

from typing import Annotated, Literal

from elasticd.api import Limit, Meta, Observation, hookimpl
from elasticd.limits.seriesless import Seriesless


class Rollout(Seriesless, tag="rollout", frozen=True):
    """No scale-in, or no change at all, while a rollout is in progress. Reason RolloutInProgress.

    A rollout is in progress while a Deployment or StatefulSet has pods of another template than its newest, also when a
    person paused it, and until its controller has seen its newest spec. One that has missed its deadline (Deployment,
    progressDeadlineSeconds) is none any more. ReplicaSets roll nothing out, and of other kinds it cannot be known: they
    are not limited.
    """

    forbids: Annotated[
        Literal["down", "both"], Meta(description="what must wait for its end: scale-in, or any change")
    ] = "down"

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        """The current count and, unless both ways are forbidden, all above."""
        workload = observation.workload
        if not workload.rollout:
            return None
        highest = workload.replicas if self.forbids == "both" else None
        return Limit("RolloutInProgress", workload.rollout, workload.replicas, highest, "AbleToScale")
