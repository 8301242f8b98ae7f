"""Image locality: prefers nodes that have a pod's images already.

Knows the images that nodes report; knows nothing of how fast others could be pulled.
"""

import numpy as np

from elasticd.api import Node, Nodes, Pod, PoolStrategy, Scores, Whole, hookimpl
from elasticd.kit import Memo, Weight

LEAST, MOST = 23 * 2**20, 1000 * 2**20
"""Bytes: images of less do not count, and of more no more than this for each container (kube-scheduler)."""


class ImageLocality(PoolStrategy, tag="image-locality", frozen=True):
    """Scores nodes from 0 to 10 by the bytes of the pod's images that they have, each weighted by the part of all nodes
    that have it, so that one node with a rare image does not draw all its pods.

    Kubelets report the largest 50 images by default.

    Source: kube-scheduler, score of ImageLocality.
    """

    weight: Weight = 1.0

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def score_nodes(self, pod: Pod, nodes: Nodes) -> Scores | None:
        """A score from 0 to 10 for each node; None where no node has any of the images."""
        images, by_name = pod.needs.images, _sizes("", nodes.nodes)
        parts = [by_name[name] for name in map(full_name, images) if name in by_name]
        if not parts:
            return None
        most = MOST * len(images)
        present = np.clip(np.add.reduce(parts), LEAST, most)
        return Scores((100 * (present - LEAST) // (most - LEAST)) / 10, self.weight)


def full_name(image: str) -> str:
    """An image's name with its tag, which is `latest` by default."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _sizes_of(_: str, nodes: tuple[Node, ...]) -> dict[str, Whole]:
    """By the name of an image, what it counts on each node: its bytes, times the part of the nodes that have it."""
    where: dict[str, dict[int, int]] = {}
    for index, node in enumerate(nodes):
        for image in node.images:
            for name in image.names:
                where.setdefault(name, {})[index] = image.size
    sizes = dict[str, Whole]()
    for name, on in where.items():
        column = np.zeros(len(nodes), dtype=np.int64)
        column[list(on)] = [int(size * (len(on) / len(nodes))) for size in on.values()]
        sizes[name] = column
    return sizes


_sizes = Memo(_sizes_of, most=4)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [ImageLocality]
