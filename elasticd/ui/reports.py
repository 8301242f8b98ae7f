"""The reports that commands print: of the running daemon or, where none answers, from its journal.

Knows where to ask, and what to say where there is no answer; knows nothing of how a report is shown.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from elasticd.base.errors import ElasticdError, UnavailableError, near, nearest
from elasticd.base.text import one_line
from elasticd.config import HttpSettings, Settings, load_settings
from elasticd.config.reading import read_policies
from elasticd.journal import is_written
from elasticd.model.moves import Underway
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.records import Decision
from elasticd.model.reports import Held, PodReport, Preview, PreviewRow, StatusReport, in_force
from elasticd.registry import discover
from elasticd.ui import journaled, remote
from elasticd.ui.pods import undecided

WINDOWS = ("ScaleDownStabilized", "ScaleUpStabilized")
"""Reasons of limits that only delay a change of what is wanted."""


def status(settings: Settings) -> StatusReport:
    """Ask the daemon of these settings; if none answers, read its journal, for policies that still exist. Raises
    UnavailableError if the state folder is missing or unreadable."""
    try:
        return remote.status(settings.http)
    except UnavailableError as error:
        report = remembered(settings.state, str(error))
    policies, errors = read_policies(settings.policies, discover(), settings)
    if errors:
        note = f"{report.note}; which policies are in force is not known, for their files have mistakes"
        return replace(report, dry_run=settings.dry_run, note=note)
    decisions = [entry for entry in report.decisions if any(_governs(policy, entry) for policy in policies)]
    in_force_now = tuple(map(in_force, policies))
    return replace(report, dry_run=settings.dry_run, decisions=tuple(decisions), policies=in_force_now)


def preview(decisions: Sequence[Decision], http: HttpSettings) -> Preview:
    """Compare what policies would decide with the counts now, and with what a running daemon governs, if one answers.
    A policy that only observes changes no count."""
    before: dict[str, Decision] = {}
    note, unknown = "", "which workloads would newly be governed is not known"
    try:
        report = remote.status(http)
        before = {str(decision.workload): decision for decision in report.decisions}
        if report.leading is False:  # it may never have decided
            note, before = f"{unknown}: this daemon does not lead; ask {report.leader or 'the one that does'}", {}
    except UnavailableError as error:
        note = f"{unknown}: {error}"
    rows = []
    for decision in decisions:
        new = not note and str(decision.workload) not in before
        after = _after_windows(decision) if decision.mode == "act" else decision.current
        if new or after != decision.current:
            rows.append(_preview_row(decision, after, "new" if new else ""))
    governed = {str(decision.workload) for decision in decisions}
    gone = [before[name] for name in sorted(before.keys() - governed)]
    rows += [_preview_row(decision, decision.current, "no longer") for decision in gone]
    return Preview(tuple(rows), len(decisions), note)


def _after_windows(decision: Decision) -> int:
    """The count once stabilization windows are over: a preview has no history, of which they would speak."""
    if decision.asked is None or not any(limit.bound and limit.reason in WINDOWS for limit in decision.limits):
        return decision.replicas
    replicas = decision.asked
    for limit in decision.limits:
        if limit.reason not in WINDOWS:
            replicas = limit.clamp(replicas)
    return replicas


def _preview_row(decision: Decision, would_be: int, governed: Literal["", "new", "no longer"]) -> PreviewRow:
    reason, message = (decision.reason, decision.message) if governed != "no longer" else ("", "")
    return PreviewRow(decision.workload, decision.policy, decision.current, would_be, reason, message, governed)


def remembered(folder: Path, why: str = "") -> StatusReport:
    """What the journal in this folder had last; `why` no daemon was asked. Raises UnavailableError."""
    decisions = tuple(journaled.latest_of_all(folder))
    newest = max((decision.at for decision in decisions), default=None)
    last = "nothing" if newest is None else f"until {datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return StatusReport(False, None, False, decisions, note=f"{_daemon(folder, why)}: what its journal has, {last}")


def _daemon(folder: Path, why: str) -> str:
    try:
        written = is_written(folder)
    except OSError as error:
        return f"{folder}: whether an elasticd runs is not known: {error.strerror}"
    if not written:
        return "no elasticd runs"
    return f"an elasticd runs and was not asked ({why})" if why else "an elasticd runs and was not asked"


def _governs(policy: Policy | PoolPolicy, decision: Decision) -> bool:
    """Whether a decision is one of this policy, as far as that is known without the cluster."""
    if policy.name != decision.policy or isinstance(policy, PoolPolicy):
        return False
    return policy.workload is None or policy.workload.ref == decision.workload


def pod(name: str, folder: Path, settings: Settings | None, config: Path, policy: str | None) -> PodReport:
    """Report on a pod, NAMESPACE/NAME, from the journal in this folder and from the daemon of these settings (None:
    those in `config`), if the folder is the daemon's. Raises UnavailableError, which says why, if nothing was decided.
    """
    report = journaled.pod_report(folder, name, policy)
    try:
        settings = settings or load_settings(config, discover())
        if settings.state.resolve() == folder.resolve():
            report = replace(report, seen=remote.pod(settings.http, pod=name))
        else:
            report = replace(report, unseen=f"{folder} is not the state folder of {config}")
    except ElasticdError as error:
        report = replace(report, unseen=str(error))
    if report.empty:
        raise UnavailableError(f"{folder}: {_explain_nothing(folder, name, policy, report)}")
    return report


def _explain_nothing(folder: Path, name: str, policy: str | None, report: PodReport) -> str:
    if policy is not None and report.others:
        policies = sorted(report.others)
        theirs = nearest(policy, policies) or f"; there are some of {', '.join(policies)}"
        return one_line(f'the journal has no decision of policy "{policy}" about pod {name}{theirs}')
    text = f"the journal has no decision about pod {one_line(name)}"
    if report.seen is None:
        return f"{text}{near(name, journaled.pods(folder))}; told from the journal alone: {one_line(report.unseen)}"
    return f"{text}: {undecided(name, report.seen)}"


class Moves(NamedTuple):
    """What is being moved, and which pods are held back; `note`: why that is not known. `left_alone`: which records of
    evicted pods do not count; `unread`: why records cannot be read, so that more pods may be in flight;
    `stale`: which kinds of objects are not current, a line for each."""

    in_flight: list[Underway]
    held_back: list[Held]
    left_alone: str = ""
    unread: str = ""
    stale: tuple[str, ...] = ()
    note: str = ""


def moves(settings: Settings) -> Moves:
    """The moves of a running daemon. What is held back is told by its journal, of policies in force. Raises
    UnavailableError where no daemon answers."""
    shown = remote.moves(settings.http)
    found = Moves(shown.in_flight, [], shown.left_alone, shown.unread, shown.stale)
    status = remote.pod(settings.http, pod="")
    if not status.leading:
        note = "what is held back is told by the elasticd that leads, and this one does not"
        return found._replace(note=note)
    try:
        held_back = journaled.held(settings.state)
    except UnavailableError as error:
        return found._replace(note=f"what is held back is not known: {error}")
    policies, going = {pool.policy for pool in status.pools}, {move.pod for move in found.in_flight}
    held_back = [entry for entry in held_back if entry.decision.policy in policies and entry.decision.pod not in going]
    return found._replace(held_back=held_back)
