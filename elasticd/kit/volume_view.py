"""Claims and volumes within one plan: what the cluster has, with what the plan has decided about them.

Pure. Knows how to find them; knows no nodes, and nothing of which volume a claim should get.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from elasticd.base.memo import Memo
from elasticd.model.volumes import UNLIMITED, ClaimKey, Storage, StorageClass, Volume, VolumeClaim


def _by_class(_: str, volumes: Mapping[str, Volume]) -> dict[str, list[Volume]]:
    grouped: dict[str, list[Volume]] = {}
    for volume in volumes.values():
        grouped.setdefault(volume.class_name, []).append(volume)
    for group in grouped.values():
        group.sort(key=lambda volume: (volume.size, volume.name))
    return grouped


_NO_LIMITS: Mapping[str, int] = MappingProxyType({})


class VolumeView:
    """The volumes within one plan: see volumes.Volumes. `keep` and `select` are the planner's."""

    _grouped: Memo[str, Mapping[str, Volume], dict[str, list[Volume]]] = Memo(_by_class, most=4)

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._claims: dict[ClaimKey, VolumeClaim] = {}
        self._kept: dict[str, Volume] = {}
        self._limits: dict[str, tuple[tuple[str, ...], NDArray[np.int64]]] = {}

    @property
    def unknown(self) -> tuple[str, ...]:
        return self._storage.unknown

    def claim(self, key: ClaimKey) -> VolumeClaim | None:
        return self._claims.get(key) or self._storage.claims.get(key)

    def volume(self, name: str) -> Volume | None:
        return self._kept.get(name) or self._storage.volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._storage.classes.get(name)

    def of_class(self, name: str) -> Sequence[Volume]:
        volumes = VolumeView._grouped("", self._storage.volumes).get(name, ())
        return [self._kept.get(volume.name, volume) for volume in volumes] if self._kept else volumes

    def limits_of(self, driver: str, nodes: tuple[str, ...]) -> NDArray[np.int64]:
        known = self._limits.get(driver)
        if known is None or known[0] is not nodes:
            by_node = self._storage.limits
            amounts = [by_node.get(name, _NO_LIMITS).get(driver, UNLIMITED) for name in nodes]
            known = self._limits[driver] = nodes, np.array(amounts, dtype=np.int64)
        return known[1]

    def keep(self, volume: Volume, claim: VolumeClaim) -> None:
        """Keep a volume for a claim, within this plan."""
        self._kept[volume.name] = replace(volume, claim=(claim.namespace, claim.name, claim.uid))

    def select(self, claim: VolumeClaim, node: str) -> None:
        """Let a volume for a claim be provisioned for a node, within this plan."""
        self._claims[claim.key] = replace(claim, node=node)
