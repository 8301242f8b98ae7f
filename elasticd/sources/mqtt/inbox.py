"""The queue of messages that wait to be decoded; when it is full, it drops those that newer ones replace.

Knows that a newer message of a topic replaces an older one; knows nothing of their contents.

Up to half of its capacity, messages wait in their order. Further ones wait behind them, one for each topic: a newer
message replaces an older one of its topic. Those in front are decoded whatever comes, so that no topic waits for longer
than it takes to decode a full queue, however often it is published.
"""

from collections import deque

from elasticd.sources.mqtt.packets import Message

MOST_BYTES = 64 << 20


class Inbox:
    """A queue of at most `most` messages and MOST_BYTES of payload. `shed` counts the messages it dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[Message] = deque()
        self._newest: dict[str, Message] = {}
        """By topic, in the order in which they came; all came after those in front."""
        self._bytes = 0
        self.shed = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._newest)

    @property
    def room(self) -> bool:
        """Whether one more may come without any topic losing its newest message."""
        return len(self._waiting) + len(self._newest) < self._most and self._bytes < MOST_BYTES

    def put(self, message: Message) -> None:
        """Queue a message."""
        self._bytes += len(message.payload)
        if not self._newest and len(self._waiting) * 2 < self._most and self._bytes * 2 < MOST_BYTES:
            self._waiting.append(message)
            return
        if (older := self._newest.pop(message.topic, None)) is not None:
            self._drop(older)
        self._newest[message.topic] = message
        while len(self) > self._most or (self._bytes > MOST_BYTES and len(self) > 1):
            self._drop(self._next())  # a caller that does not check `room` loses the oldest

    def get(self) -> Message | None:
        """The next message; None when none waits."""
        if not self:
            return None
        message = self._next()
        self._bytes -= len(message.payload)
        return message

    def _next(self) -> Message:
        if not self._waiting:
            self._waiting, self._newest = deque(self._newest.values()), {}
        return self._waiting.popleft()

    def _drop(self, message: Message) -> None:
        self._bytes -= len(message.payload)
        self.shed += 1
