"""Writes to the journal what decisions are made from, each part once while it stays as it is.

Knows what was written last; knows nothing of files.
"""

from collections.abc import Set as AbstractSet

from elasticd.decision.basis import change, parts_of, rooms_of, same
from elasticd.decision.decide import Case
from elasticd.journal import Journal, Key
from elasticd.model.records import Basis


class BasisWriter:
    """What the journal's newest segment has. In memory alone, as in a simulation, nothing is written."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._stretch = journal, journal.stretch
        self._cases: dict[Key, Case] = {}
        self._seen: Case | None = None
        """The last case with nodes."""

    def write(self, case: Case) -> None:
        """Append what of a case the journal does not have yet; where JSON cannot express it, that it is not known."""
        if self._journal.folder is None:
            return
        if self._journal.stretch != self._stretch:
            self._stretch, self._seen = self._journal.stretch, None
            self._cases.clear()
        key = (case.policy.name, case.observation.workload.ref)
        try:
            if case.observation.rooms is not None:
                self._write_rooms(case)
            self._write(key, case)
        except (TypeError, ValueError, RecursionError):
            self._journal.append(Basis(case.observation.at, whole=True, policy=key[0], workload=key[1]))
            self._cases.pop(key, None)

    def _write(self, key: Key, case: Case) -> None:
        before = self._cases.get(key)
        if before is None or not same(before, case):
            known = None if before is None else parts_of(before)
            if basis := change(case.observation.at, key, known, parts_of(case)):
                self._journal.append(basis)
        self._cases[key] = case

    def _write_rooms(self, case: Case) -> None:
        seen, observation = self._seen, case.observation
        if seen is None or seen.observation.rooms is not observation.rooms:
            known = None if seen is None else rooms_of(seen)
            if basis := change(observation.at, None, known, rooms_of(case)):
                self._journal.append(basis)
        self._seen = case

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Forget what is no longer governed."""
        self._cases = {key: case for key, case in self._cases.items() if key in keys}
