"""Messages that wait to be decoded, and which of them are let go when there are too many.

Knows that a newer message of a topic makes an older one needless; knows nothing of what they say.

With small messages it is empty at the end of every slice, for decoding costs less than receiving; large batches may
come faster than they are decoded.
"""

from collections import deque

from elasticd.mqtt.link import Message

MOST_BYTES = 64 << 20


class Inbox:
    """A queue of at most `most` messages and MOST_BYTES of payload. `shed` counts what was let go."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[Message] = deque()
        self._bytes = 0
        self.shed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: Message) -> None:
        """Let a message wait."""
        self._waiting.append(message)
        self._bytes += len(message.payload)
        if len(self._waiting) > self._most or self._bytes > MOST_BYTES:
            self._shed()

    def get(self) -> Message | None:
        """The next message; None when none waits."""
        if not self._waiting:
            return None
        message = self._waiting.popleft()
        self._bytes -= len(message.payload)
        return message

    def _shed(self) -> None:
        """Keep the newest message of each topic; if that is not enough, the newest topics. Half of the room is then
        free, so that this is not done for each message."""
        before, kept = len(self._waiting), dict[str, Message]()
        room, space = self._most // 2, MOST_BYTES // 2
        for message in reversed(self._waiting):
            if message.topic not in kept and room and space >= len(message.payload):
                kept[message.topic] = message
                room, space = room - 1, space - len(message.payload)
        self._waiting = deque(reversed(kept.values()))
        self._bytes = sum(len(message.payload) for message in self._waiting)
        self.shed += before - len(self._waiting)
