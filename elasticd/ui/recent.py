"""Reads the newest decisions about workloads and pods from the journal; no daemon need run.

Knows the journal's records; knows nothing of how they are shown.
"""

from pathlib import Path

import msgspec

from elasticd.journal import DECISIONS, read_back
from elasticd.model.placement import PodDecision
from elasticd.model.records import Decision, Outcome


def latest(folder: Path, parts: list[str], policy: str | None) -> tuple[Decision | None, Outcome | None]:
    """The newest decision about a workload, and the outcome of its action if there is one already."""
    outcomes: dict[str, Outcome] = {}
    for record in read_back(folder, containing=msgspec.json.encode(parts[2])):
        if not isinstance(record, Decision | Outcome):
            continue
        ref = record.workload
        if [ref.namespace, ref.kind, ref.name] != parts or policy not in (None, record.policy):
            continue
        if isinstance(record, Decision):
            return record, outcomes.get(record.id)
        outcomes[record.decision] = record
    return None, None


def latest_of_all(folder: Path) -> list[Decision]:
    """The newest decision about every workload."""
    newest: dict[tuple[str, object], Decision] = {}
    for record in read_back(folder, containing=DECISIONS):
        if isinstance(record, Decision):
            newest.setdefault((record.policy, record.workload), record)
    return [newest[key] for key in sorted(newest, key=str)]


def pods(folder: Path) -> set[str]:
    """The pods that there are decisions about, as NAMESPACE/NAME."""
    records = read_back(folder, containing=b'"type":"placing"')
    return {f"{record.pod.namespace}/{record.pod.name}" for record in records if isinstance(record, PodDecision)}
