"""Which workloads a HorizontalPodAutoscaler scales; KEDA's ScaledObjects make one too.

Knows the latest of what was read of them; knows nothing of how it came, nor of what they decide.
"""

import sys
from bisect import insort
from operator import attrgetter

from msgspec import Struct

from elasticd.cluster.kubernetes.watch.store import Store
from elasticd.cluster.kubernetes.wire.objects import WireAutoscaler
from elasticd.model.workload import Ref

Target = tuple[str, str, str, str]
"""Namespace, API group, kind and name: an autoscaler may name another version of the group."""


class Autoscaler(Struct, frozen=True, gc=False):
    """An autoscaler and its target."""

    namespace: str
    name: str
    target: Target


def to_autoscaler(wire: WireAutoscaler) -> Autoscaler:
    """The namespace, name and target of an autoscaler; nothing else of it is used."""
    meta, target = wire.metadata, wire.spec.scale_target_ref
    space = sys.intern(meta.namespace)
    return Autoscaler(space, meta.name, (space, _group(target.api_version), sys.intern(target.kind), target.name))


class AutoscalerStore(Store[Autoscaler]):
    """All autoscalers, by what they scale."""

    def __init__(self) -> None:
        super().__init__(attrgetter("namespace", "name"))
        self._by_target: dict[Target, list[str]] = {}

    def scaling(self, ref: Ref) -> tuple[str, ...]:
        """The names of the autoscalers of a workload. More than one is a mistake, but possible."""
        if not self._by_target:
            return ()
        return tuple(self._by_target.get((ref.namespace, _group(ref.api_version), ref.kind, ref.name), ()))

    def _changed(self, old: Autoscaler | None, new: Autoscaler | None) -> None:
        """An autoscaler's status changes with every metrics read, so most events never come to this."""
        if old is not None:
            self._by_target[old.target].remove(old.name)
            if not self._by_target[old.target]:
                del self._by_target[old.target]
        if new is not None:
            insort(self._by_target.setdefault(new.target, []), new.name)


def _group(api_version: str) -> str:
    return sys.intern(api_version.rpartition("/")[0])
