"""Whether a value has changed since it was last reported. Pure."""

from collections.abc import Container, Hashable
from math import inf


class LastReported:
    """The value that was last reported of each key, so that it is reported again only once it has changed."""

    def __init__(self, first: object = None, most: float = inf) -> None:
        """`first`: the value of the key None that need not be reported; of any other key that is None. Of more keys
        than `most` the one reported longest ago is forgotten."""
        self._last: dict[Hashable, object] = {None: first} if first is not None else {}
        self._most = most

    def changed(self, value: object, key: Hashable = None) -> bool:
        """Take in a value, None for none any more; whether it differs from the last one of its key."""
        previous = self._last.pop(key, None)
        if value is not None:
            if len(self._last) >= self._most:
                del self._last[next(iter(self._last))]
            self._last[key] = value
        return previous != value

    def keep(self, keys: Container[Hashable]) -> None:
        """Forget all other keys."""
        self._last = {key: value for key, value in self._last.items() if key in keys}
