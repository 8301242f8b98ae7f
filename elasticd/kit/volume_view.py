"""Claims and volumes within one plan: what the cluster has, with what the plan has decided about them.

Pure. Knows how to find them; knows no nodes, and nothing of which volume a claim should get.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from elasticd.base.memo import Memo
from elasticd.model.volumes import UNLIMITED, ClaimKey, Storage, StorageCapacity, StorageClass, Volume, VolumeClaim


class _Grouped(NamedTuple):
    """The free volumes of each class, the smallest first, and those that are kept for each claim."""

    free: dict[str, list[Volume]]
    kept: dict[ClaimKey, list[Volume]]


def _group(_: str, volumes: Mapping[str, Volume]) -> _Grouped:
    grouped = _Grouped({}, {})
    for volume in sorted(volumes.values(), key=lambda volume: (volume.size, volume.name)):
        if volume.claim is not None:
            grouped.kept.setdefault(volume.claim[:2], []).append(volume)
        elif volume.available:
            grouped.free.setdefault(volume.class_name, []).append(volume)
    return grouped


_NO_LIMITS: Mapping[str, int] = MappingProxyType({})


class VolumeView:
    """The volumes within one plan: see volumes.Volumes. `keep` and `select` are the planner's."""

    _grouped: Memo[str, Mapping[str, Volume], _Grouped] = Memo(_group, most=4)

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

    def free(self, class_name: str) -> Sequence[Volume]:
        volumes = VolumeView._grouped("", self._storage.volumes).free.get(class_name, ())
        return [volume for volume in volumes if volume.name not in self._kept] if self._kept else volumes

    def kept(self, claim: VolumeClaim) -> Volume | None:
        kept = (*VolumeView._grouped("", self._storage.volumes).kept.get(claim.key, ()), *self._kept.values())
        of_class = (volume for volume in kept if volume.class_name == claim.class_name)
        return next((volume for volume in of_class if volume.kept_for(claim) and volume.serves(claim)), None)

    def capacities_of(self, found: StorageClass) -> Sequence[StorageCapacity] | None:
        if found.provisioner not in self._storage.tracked:
            return None
        return [each for each in self._storage.capacities if each.class_name == found.name]

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
