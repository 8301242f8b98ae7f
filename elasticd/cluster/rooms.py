"""The free capacity of a node: what it can allocate, less what its pods request."""

from collections.abc import Iterable

from elasticd.model.workload import Node, Pod, Room


def room(node: Node, pods: Iterable[Pod]) -> Room:
    """The free capacity of a node with these pods. Pods that are being deleted count until they are gone."""
    free = dict(node.allocatable)
    for pod in pods:
        if "pods" in free:
            free["pods"] -= 1
        for resource, amount in pod.counted.items():
            if resource in free:
                free[resource] -= amount
    return Room(node, free)
