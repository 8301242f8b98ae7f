"""Whether a value has changed since it was last reported. Pure."""

from collections.abc import Container, Hashable


class LastReported:
    """The value that was last reported of each key, so that it is reported again only once it has changed."""

    def __init__(self, first: object = None) -> None:
        """`first`: the value of the key None that need not be reported. Of any other key that is None."""
        self._last: dict[Hashable, object] = {None: first}

    def changed(self, value: object, key: Hashable = None) -> bool:
        """Take in a value; whether it differs from the last one of its key."""
        previous, self._last[key] = self._last.get(key), value
        return previous != value

    def keep(self, keys: Container[Hashable]) -> None:
        """Forget all other keys."""
        self._last = {key: value for key, value in self._last.items() if key in keys}
