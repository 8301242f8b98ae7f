"""Which workloads a HorizontalPodAutoscaler scales; KEDA's ScaledObjects make one too.

Knows the latest of what was read of them; knows nothing of how it came, nor of what they decide.
"""

import sys
from collections.abc import Collection

from msgspec import Struct

from elasticd.cluster.kubernetes.watch.places import Key
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


class AutoscalerStore:
    """All autoscalers, by what they scale."""

    def __init__(self) -> None:
        self._autoscalers: dict[Key, Autoscaler] = {}
        self._by_target: dict[Target, tuple[str, ...]] = {}

    def scaling(self, ref: Ref) -> tuple[str, ...]:
        """The names of the autoscalers of a workload. More than one is a mistake, but possible."""
        if not self._by_target:
            return ()
        return self._by_target.get((ref.namespace, _group(ref.api_version), ref.kind, ref.name), ())

    def put(self, item: Autoscaler, *, listed: bool) -> Key:
        """Store an autoscaler. Its status changes with every metrics read, so most events change nothing here."""
        key = (item.namespace, item.name)
        if self._autoscalers.get(key) != item:
            self._forget(key)
            self._autoscalers[key] = item
            self._by_target[item.target] = tuple(sorted((*self._by_target.get(item.target, ()), item.name)))
        return key

    def remove(self, item: Autoscaler) -> None:
        """The autoscaler is gone."""
        self._forget((item.namespace, item.name))

    def retain(self, namespace: str, keep: Collection[Key]) -> None:
        """Forget all autoscalers of the namespace (all namespaces, if empty) but these."""
        for key in [key for key in self._autoscalers if namespace in ("", key[0]) and key not in keep]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        autoscaler = self._autoscalers.pop(key, None)
        if autoscaler is None:
            return
        names = tuple(name for name in self._by_target[autoscaler.target] if name != autoscaler.name)
        if names:
            self._by_target[autoscaler.target] = names
        else:
            del self._by_target[autoscaler.target]


def _group(api_version: str) -> str:
    return sys.intern(api_version.rpartition("/")[0])
