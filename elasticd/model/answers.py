"""What the plugins of a policy answer when a hook is called. Knows names; knows nothing of what is answered."""

from typing import Any

from msgspec import Struct

from elasticd.model.workload import Failure


class Answers(Struct, frozen=True, gc=False):
    """What the implementations of one hook said, by name in `names`, and which could not."""

    names: tuple[str, ...] = ()
    given: tuple[Any, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def values(self) -> tuple[tuple[str, Any], ...]:
        """What was said, each with the name of who said it."""
        return tuple(zip(self.names, self.given, strict=True))
