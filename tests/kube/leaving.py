"""A plugin that the moves' tests install beside the bundled ones: it wants all pods off nodes that are cordoned."""

from collections.abc import Sequence

from elasticd.api import Move, Nodes, PoolObservation, PoolPast, Strategy, hookimpl


class Leave(Strategy, tag="leave", frozen=True):
    """Wants all pods off nodes that are cordoned."""

    @hookimpl
    def rebind_pods(self, nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[Move]:
        found = [index for index, node in enumerate(nodes.nodes) if node.unschedulable]
        return [Move(pod, "Cordoned") for index in found for pod in nodes.pods(index)]

    def reads(self) -> tuple[str, ...]:
        return ()


@hookimpl
def register_strategies() -> Sequence[type[Strategy]]:
    return (Leave,)
