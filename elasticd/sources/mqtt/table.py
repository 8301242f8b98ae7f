"""The newest reading of every subject.

Knows which of two readings is newer, and how long one is kept; knows no topic and no wire. A reading is counted
once: new, duplicate, late, or refused for a reason.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from msgspec import Struct

from elasticd.model.workload import Sample
from elasticd.ports.source import Subject

Verdict = Literal["new", "duplicate", "late", "clock", "subjects"]
"""new: it is kept. duplicate: it was known. late: a newer one was known. clock: its time cannot be true. subjects:
there are too many already."""

Sender = tuple[str, ...]
"""A template of last wills, and the levels that tell senders apart; empty where there is no last will."""


class SensorReading(NamedTuple):
    """A number with its metadata from the sender: `time` in seconds since the epoch, None: unknown; `window` in s."""

    value: float
    time: float | None
    sequence: int | None
    received: float
    retained: bool
    again: bool
    """It may be delivered for the second time (MQTT's DUP flag)."""
    window: float = 0.0
    consecutive: bool = False
    """Whether the sequence grows by one from each reading of a subject to its next."""


class _Entry(Struct):
    """The newest reading of a subject, its sender, and since when that is offline."""

    reading: SensorReading
    sender: Sender
    gone: float | None = None


class Slot:
    """A series of pods, workloads or nodes."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.known: dict[str, _Entry] = {}
        """By key, the one with the oldest reading first."""
        self.samples: dict[str, tuple[Sample, ...]] = {}
        self.view: Mapping[str, tuple[Sample, ...]] = MappingProxyType(self.samples)
        self.senders: dict[Sender, set[str]] = {}
        self.away: dict[Sender, float] = {}
        """Senders that are offline, and since when."""


class SensorTable:
    """All series of a source. `subjects`: readings at most; `ttl`: seconds that a silent one is kept; `skew`: seconds
    that a sender's clock may differ from ours."""

    def __init__(self, subjects: int, ttl: float, skew: float) -> None:
        self.most, self._ttl, self._skew = subjects, ttl, skew
        self._slots: dict[tuple[Subject, str], Slot] = {}
        self.size = self.missed = 0

    def slot(self, subject: Subject, series: str) -> Slot:
        return self._slots.setdefault((subject, series), Slot(subject))

    def views(self, subject: Subject) -> dict[str, Mapping[str, tuple[Sample, ...]]]:
        """Live views of the samples of each series, by subject: they are no copies, and change with each reading."""
        return {series: slot.view for (about, series), slot in self._slots.items() if about == subject}

    def silent(self) -> set[str]:
        """The series of which nothing is known."""
        measured = {series for (_, series), slot in self._slots.items() if slot.samples}
        return {series for _, series in self._slots} - measured

    def take(self, slot: Slot, key: str, reading: SensorReading, sender: Sender = ()) -> Verdict:
        """Remember a reading, if it is the newest."""
        ahead = 0.0 if reading.time is None else reading.time - reading.received
        # A retained reading may be old, and is then stale; none may come from the future.
        if ahead > self._skew or (ahead < -self._skew and not reading.retained):
            return "clock"
        entry = slot.known.get(key)
        if entry is None:
            if sender in slot.away and reading.retained:
                return "late"
            if self.size >= self.most:
                return "subjects"
            self.size += 1
        else:
            verdict = (
                self._compare_returned(entry, reading)
                if entry.gone is not None
                else self._compare(entry.reading, reading)
            )
            if verdict != "new":
                return verdict
            self.missed += _count_skipped(entry.reading, reading)
            del slot.known[key]
            if entry.sender != sender:
                self._remove_from_sender(slot, key, entry.sender)
        self._put(slot, key, reading, sender)
        return "new"

    def _put(self, slot: Slot, key: str, reading: SensorReading, sender: Sender) -> None:
        slot.known[key] = _Entry(reading, sender)
        measured = reading.time
        if measured is None:  # the age of a retained reading without a time is unknown: it counts as stale
            measured = 0.0 if reading.retained else reading.received
        measured = min(
            measured, reading.received
        )  # a reading is no younger than its arrival, even if the sender's clock is ahead
        pod = key.partition("/")[2] if slot.subject == "pod" else ""
        slot.samples[key] = (Sample(reading.value, measured, reading.received, reading.window, pod),)
        if sender:
            slot.senders.setdefault(sender, set()).add(key)
            slot.away.pop(sender, None)

    def _compare(self, last: SensorReading, reading: SensorReading) -> Verdict:
        """Which of two readings is newer: by sequence, else by time, else by arrival."""
        if reading.sequence is not None and last.sequence is not None:
            if reading.sequence > last.sequence or self._began_anew(last, reading):
                return "new"
            return "duplicate" if (reading.sequence, reading.value) == (last.sequence, last.value) else "late"
        if reading.time is not None and last.time is not None and reading.time != last.time:
            return "new" if reading.time > last.time else "late"
        same = reading.value == last.value
        if reading.time is None:  # only the order of arrival is known
            if not reading.retained and not (reading.again and same):
                return "new"
            return "duplicate" if same else "late"
        return "duplicate" if same else "late" if reading.retained or reading.again else "new"

    def _began_anew(self, last: SensorReading, reading: SensorReading) -> bool:
        """Whether the sender has restarted its sequence: a late reading would not be so much younger."""
        if reading.time is not None and last.time is not None:
            return reading.time - last.time > self._skew
        return not reading.retained and not reading.again and reading.received - last.received > self._skew

    def _compare_returned(self, entry: _Entry, reading: SensorReading) -> Verdict:
        """Whether a reading shows that an offline sender is back: it was just sent, or measured since then."""
        if reading.retained:
            back = reading.time is not None and entry.gone is not None and reading.time > entry.gone
            return "new" if back else "late"
        return self._compare(entry.reading, reading) if reading.again else "new"

    def gone(self, slot: Slot, sender: Sender, now: float) -> Collection[str]:
        """Mark a sender's subjects as unknown, which is not zero, as its last will has come. Returns their keys. Their
        samples stay, with a time of 0, so that they differ from subjects that never were."""
        slot.away.pop(sender, None)
        if len(slot.away) < self.most:
            slot.away[sender] = now
        keys = slot.senders.get(sender, set())
        for key in keys:
            slot.known[key].gone = now
            slot.samples[key] = tuple([Sample(s.value, 0.0, now, s.window, s.pod) for s in slot.samples[key]])
        return keys

    def returned(self, slot: Slot, sender: Sender) -> None:
        """Mark a sender as online. Its subjects stay unknown until their next readings."""
        slot.away.pop(sender, None)

    def sweep(self, now: float) -> None:
        """Forget the subjects and offline senders that were silent for longer than `ttl`."""
        oldest = now - self._ttl
        for slot in self._slots.values():
            while slot.known:
                key, entry = next(iter(slot.known.items()))
                if entry.reading.received >= oldest:
                    break
                del slot.known[key], slot.samples[key]
                self._remove_from_sender(slot, key, entry.sender)
                self.size -= 1
            while slot.away:
                sender, since = next(iter(slot.away.items()))
                if since >= oldest:
                    break
                del slot.away[sender]

    def _remove_from_sender(self, slot: Slot, key: str, sender: Sender) -> None:
        if sender and (keys := slot.senders.get(sender)) is not None:
            keys.discard(key)
            if not keys:
                del slot.senders[sender]


def _count_skipped(last: SensorReading, reading: SensorReading) -> int:
    """How many readings of a subject were missed between two of them, as far as that is known."""
    if not reading.consecutive or reading.sequence is None or last.sequence is None:
        return 0
    return max(0, reading.sequence - last.sequence - 1)
