"""What limits of counts have in common: they need no series. Knows nothing of what they limit."""

from elasticd.api import LimitStrategy


class Seriesless(LimitStrategy, frozen=True):
    """A limit that looks at counts, pods, nodes or the calendar alone."""

    def reads(self) -> tuple[str, ...]:
        """None of them."""
        return ()
