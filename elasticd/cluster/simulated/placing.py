"""What is done to simulated pods one by one: they are bound, evicted, and noted for a node.

Knows what an API server would answer; knows nothing of why it is asked.
"""

from collections.abc import Iterable

from elasticd.cluster.simulated.pods import SimulatedPod
from elasticd.cluster.simulated.world import World
from elasticd.model.actions import Answer, Bind, Evict, Nominate
from elasticd.model.placement import DisruptionBudget

Placing = Bind | Evict | Nominate


def place(world: World, action: Placing, budgets: Iterable[DisruptionBudget]) -> Answer:
    """Carry an action out, if the pod still has the expected UID. `budgets` are those in force now."""
    ref = action.workload
    pod = world.pod(ref.namespace, ref.name)
    if pod is None:
        return Answer("conflict", 404, f"there is no pod {ref.namespace}/{ref.name}", "NotFound")
    if pod.uid != action.uid:
        return Answer("conflict", 409, f"uid was {action.uid}, is {pod.uid}", "Conflict")
    match action:
        case Bind():
            return _bind(world, pod, action.node)
        case Evict():
            return _evict(world, pod, action, budgets)
        case Nominate():
            world.nominate(pod, action.node)
            return Answer("done", 200)


def _bind(world: World, pod: SimulatedPod, node: str) -> Answer:
    """Any pod can be bound once, to anything: whether it fits there is the kubelet's to say."""
    if pod.deleted:
        return Answer("conflict", 409, f"pod {pod.name} is being deleted, cannot be assigned to a host", "Conflict")
    if pod.node:
        return Answer("conflict", 409, f'pod {pod.name} is already assigned to node "{pod.node}"', "Conflict")
    world.bind(pod, node)
    return Answer("done", 201)


def _evict(world: World, pod: SimulatedPod, evict: Evict, budgets: Iterable[DisruptionBudget]) -> Answer:
    """Evict as the eviction API does: budgets do not apply to a pod that is on no node or is being deleted, and several
    budgets for one pod are an error."""
    if pod.node and not pod.deleted and not pod.rejected:
        about = [budget for budget in budgets if pod.uid in budget.pods]
        if len(about) > 1:
            message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            return Answer("refused", 500, message, "Budgets")
        if about and about[0].allowed < 1:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            return Answer("refused", 429, f"{message} The disruption budget {about[0].name} allows none", "Budget")
    world.evict(pod, restore=evict.restore)
    return Answer("done", 201)
