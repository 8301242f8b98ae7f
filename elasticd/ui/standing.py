"""The report that `elasticd status` prints: of the running daemon or, if none runs, from its journal.

Knows where to ask; knows nothing of how it is shown.
"""

from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from elasticd.base.errors import UnavailableError
from elasticd.config import Settings
from elasticd.config.reading import read_policies
from elasticd.journal import is_written
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.records import Decision
from elasticd.model.reports import PolicyInForce, StatusReport
from elasticd.registry import Registry
from elasticd.ui import remote
from elasticd.ui.recent import latest_of_all


def standing(settings: Settings, registry: Registry) -> StatusReport:
    """Ask the daemon of these settings; if none answers, read its journal, for policies that still exist. Raises
    UnavailableError if the state folder is missing or unreadable."""
    try:
        return remote.status(settings.http)
    except UnavailableError as error:
        report = remembered(settings.state, str(error))
    policies, errors = read_policies(settings.policies, registry, settings)
    if errors:
        note = f"{report.note}; which policies are in force is not known, for their files have mistakes"
        return replace(report, dry_run=settings.dry_run, note=note)
    return replace(
        report,
        dry_run=settings.dry_run,
        decisions=tuple(
            decision for decision in report.decisions if any(_governs(policy, decision) for policy in policies)
        ),
        policies=tuple(PolicyInForce(policy.name, policy.mode, isinstance(policy, PoolPolicy)) for policy in policies),
    )


def remembered(folder: Path, why: str = "") -> StatusReport:
    """What the journal in this folder had last; `why` no daemon was asked. Raises UnavailableError."""
    decisions = tuple(latest_of_all(folder))
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
