"""A cluster around another one: what it does not do itself, the inner one does."""

from typing import Any

from elasticd.ports.cluster import Cluster


class ClusterWrapper:
    """Passes everything on to the inner cluster that a subclass does not define."""

    def __init__(self, inner: Cluster) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
