"""A semaphore that no group can take whole from the others. Knows nothing of what is done meanwhile."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSemaphore:
    """Slots shared by groups, such as namespaces.

    A group may hold at most twice as many slots as are free. So one group alone holds `at_once` at most, half as many
    are left for others, and the next group leaves a third of these: however long three groups (of 128: four) hold
    theirs, another has a slot at once. The rule is that of buffers which ports of a switch share: Choudhury and Hahne,
    Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM Transactions on Networking 6(2), 1998,
    with alpha = 2.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once + at_once // 2
        self._held = Counter[str]()
        self._waiting = dict[str, deque[asyncio.Future[None]]]()
        """By group. Whoever waits belongs to a group that may hold no more now."""

    @asynccontextmanager
    async def slot(self, group: str) -> AsyncIterator[None]:
        """Hold a slot for as long as the block runs. Within a group, who came first comes first."""
        await self._acquire(group)
        try:
            yield
        finally:
            self._release(group)

    def _may_hold_more(self, group: str) -> bool:
        return self._held[group] < 2 * self._free

    def _take(self, group: str) -> None:
        self._free -= 1
        self._held[group] += 1

    async def _acquire(self, group: str) -> None:
        if self._may_hold_more(group):
            self._take(group)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had got a slot already
                self._release(group)
            raise

    def _release(self, group: str) -> None:
        self._free += 1
        self._held[group] -= 1
        if not self._held[group]:
            del self._held[group]
        while (first := next(filter(self._may_hold_more, self._waiting), None)) is not None:
            self._give(first)

    def _give(self, group: str) -> None:
        """Give a slot to whoever of this group has waited longest; its others come after those of other groups."""
        turns = self._waiting.pop(group)
        turn = turns.popleft()
        if turns:
            self._waiting[group] = turns
        if not turn.done():  # else it was cancelled
            self._take(group)
            turn.set_result(None)
