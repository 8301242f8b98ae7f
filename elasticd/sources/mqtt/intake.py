"""Queues messages, and decodes them into readings.

Knows which topics are of which series, and counts the outcome of each message; knows no connection and no reader.
"""

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from elasticd.ports.source import Subject
from elasticd.sources.mqtt import payload
from elasticd.sources.mqtt.link import SLICE, Taker
from elasticd.sources.mqtt.packets import Message
from elasticd.sources.mqtt.payload import RefusedError
from elasticd.sources.mqtt.table import Sender, SensorReading, SensorTable, Slot
from elasticd.sources.mqtt.topics import Topic

PART = 250
"""Items of a batch that are read between two looks at the clock: half a millisecond."""

MOST_BYTES = 64 << 20


class Inbox:
    """A queue of at most `most` messages and MOST_BYTES of payload that wait to be decoded. `shed` counts those that it
    dropped, because newer ones replaced them.

    Up to half of its capacity, messages wait in their order. Further ones wait behind them, one for each topic: a newer
    message replaces an older one of its topic. Those in front are decoded whatever comes, so that no topic waits for
    longer than it takes to decode a full queue, however often it is published.
    """

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


class _Route(NamedTuple):
    """How one [[source.topic]] reads the messages of one topic."""

    topic: Topic
    slot: Slot
    named: dict[str, str]
    key: str
    """Of the subject; empty where the payload names it."""
    sender: Sender
    will: bool
    keys: dict[tuple[Any, ...], str]
    """Of the subjects of a batch, by what its items name."""


class _Batch(NamedTuple):
    """Items that are still to be read."""

    route: _Route
    items: Iterator[tuple[str, Any]]
    document: Any
    envelope: SensorReading
    """What the message says of every item: when it came, and how."""


class Intake(Taker):
    """Decodes messages into readings. `wake` is called with the subject of every new reading; `offset` gives the
    seconds from the time of day to the daemon's clock."""

    def __init__(
        self,
        topics: Sequence[Topic],
        table: SensorTable,
        inbox: Inbox,
        *,
        max_payload: int,
        wake: Callable[[Subject, str], None],
        offset: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._offset = offset
        self._topics = [(topic, table.slot(topic.subject, topic.series)) for topic in topics]
        self._table, self._inbox, self._max_payload, self._wake = table, inbox, max_payload, wake
        self._routes: dict[str, tuple[_Route, ...]] = {}
        self._remembered_names = 0
        """How many names of items are remembered with the routes."""
        self._batches: deque[_Batch] = deque()
        self.received = self.decoded = 0
        self.refused: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()

    def put(self, message: Message) -> None:
        """Queue a message that has come, or refuse one that is too large."""
        self.received += 1
        if len(message.payload) > self._max_payload:
            self.refused["size"] += 1
        else:
            self._inbox.put(message)

    @property
    def room(self) -> bool:
        """Whether another message may be put. What stays with the broker is not lost yet."""
        return self._inbox.room

    def work(self, seconds: float = SLICE) -> bool:
        """Decode queued messages, for at most so many seconds. Returns whether none is left."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._batches:
                self._read_part(self._batches[0])
            elif (message := self._inbox.get()) is not None:
                self.take(message)
            else:
                return True
        return not self._inbox and not self._batches

    def take(self, message: Message) -> None:
        """Decode a message. Whatever it holds, it affects no other."""
        self.decoded += 1
        try:
            routes = self._routes.get(message.topic) or self._find(message.topic)
        except RefusedError as reason:
            self.refused[str(reason)] += 1
            return
        document = _NONE
        for route in routes:
            try:
                if route.will:
                    self._take_will(route, message)
                elif route.topic.payload == "number":
                    value = payload.number(message.payload) * route.topic.scale
                    self._keep(route, route.key, _reading_of(route, value, message))
                else:
                    document = payload.document(message.payload) if document is _NONE else document
                    self._read_document(route, document, message)
            except RefusedError as reason:
                self.refused[str(reason)] += 1

    def _find(self, name: str) -> tuple[_Route, ...]:
        """The routes of a topic, cached for as many topics as there may be subjects."""
        matching = []
        for topic, slot in self._topics:
            if match := topic.pattern.fullmatch(name):
                levels = match.groupdict()
                key = "" if topic.items else topic.key(levels)
                matching.append(_Route(topic, slot, levels, key, _sender_of(topic, match), False, {}))
            if topic.offline_pattern and (match := topic.offline_pattern.fullmatch(name)):
                matching.append(_Route(topic, slot, {}, "", _sender_of(topic, match), True, {}))
        if not matching:
            raise RefusedError("topic")
        if len(self._routes) >= self._table.most:
            self._forget()
        routes = self._routes[name] = tuple(matching)
        return routes

    def _forget(self) -> None:
        """Clear the cache of topics and names, so that it holds no more of them than there may be subjects."""
        self._routes.clear()
        self._remembered_names = 0

    def _take_will(self, route: _Route, message: Message) -> None:
        if message.payload != route.topic.offline_payload.encode():
            self._table.returned(route.slot, route.sender)
            return
        for key in self._table.gone(route.slot, route.sender, message.received):
            self._wake(route.topic.subject, key)

    def _read_document(self, route: _Route, document: Any, message: Message) -> None:
        """Keep the reading of a document, or begin a batch of them."""
        topic, envelope = route.topic, _reading_of(route, 0.0, message)
        if topic.items:
            items = payload.items_of(payload.dig(document, topic.paths["items"]))
            self._batches.append(_Batch(route, items, document, envelope))
        else:
            self._keep(route, route.key, _read_item(topic, document, document, envelope, self._offset()))

    def _read_part(self, batch: _Batch) -> None:
        """Keep the next readings of a batch. A large batch must not block the loop, so it is read in parts."""
        route, ended = batch.route, True
        for name, item in islice(batch.items, PART):
            ended = False
            try:
                reading = _read_item(route.topic, item, batch.document, batch.envelope, self._offset())
                self._keep(route, self._key(route, route.topic.named_by(name, item)), reading)
            except RefusedError as reason:  # one bad item spoils no other
                self.refused[str(reason)] += 1
        if ended:
            self._batches.popleft()

    def _key(self, route: _Route, names: tuple[Any, ...]) -> str:
        """The key of an item's subject, checked when it first appears."""
        try:
            key = route.keys.get(names)
        except TypeError:  # a name that is an array or an object
            raise RefusedError("name") from None
        if key is None:
            key = route.topic.key(route.named | dict(zip(route.topic.names, names, strict=True)))
            self._remembered_names += 1
            if self._remembered_names > self._table.most:
                self._forget()
                route.keys.clear()  # the route may be in use, and no longer in the cache
            route.keys[names] = key
        return key

    def _keep(self, route: _Route, key: str, reading: SensorReading) -> None:
        verdict = self._table.take(route.slot, key, reading, route.sender)
        self.verdicts[verdict] += 1
        if verdict == "new":
            self._wake(route.topic.subject, key)


_NONE = object()


def _reading_of(route: _Route, value: float, message: Message) -> SensorReading:
    return SensorReading(value, None, None, message.received, message.retained, message.again, route.topic.window)


def _read_item(topic: Topic, item: Any, document: Any, envelope: SensorReading, offset: float) -> SensorReading:
    paths, at, sequence = topic.paths, None, None
    value = payload.value_of(payload.dig(item, paths["payload"])) * topic.scale
    if topic.time:
        at = payload.time_of(_item_or_document(item, document, paths["time"])) + offset
    if topic.sequence:
        sequence = payload.sequence_of(_item_or_document(item, document, paths["sequence"]))
    delivery = (envelope.received, envelope.retained, envelope.again, envelope.window)
    return SensorReading(value, at, sequence, *delivery, topic.consecutive)


def _item_or_document(item: Any, document: Any, steps: payload.Steps) -> Any:
    """The value in an item, or else in the document, where it stands for all items."""
    value = payload.dig(item, steps)
    return payload.dig(document, steps) if value is None and item is not document else value


def _sender_of(topic: Topic, match: re.Match[str]) -> Sender:
    return (topic.offline, *[match[level] for level in topic.sender_levels]) if topic.offline else ()
