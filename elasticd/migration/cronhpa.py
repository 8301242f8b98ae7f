"""A CronHorizontalPodAutoscaler (Alibaba Cloud) becomes a policy with the strategy `schedule`.

Knows its jobs, its cron expressions with seconds, and what it does to an HPA; knows nothing of calendars.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from elasticd.base.text import shown
from elasticd.migration.fields import Fields
from elasticd.migration.policy import Imported, Table, subject_of, target_of, unknown_fields

_DATE = re.compile(r"@date (\d{4})-(\d{2})-(\d{2}) (\d{1,2}):(\d{2}):(\d{2})")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MACROS = {"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
           "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}  # fmt: skip


def cron_policy(
    table: Any,
    file: str,
    namespace: str,
    zone: str = "UTC",
    years: Sequence[int] = (),
    hpas: Mapping[str, Any] | None = None,
) -> Imported:
    """The policy that sets the counts of this CronHPA. `zone` is that of its controller's process, `years` those for
    which excluded dates are written, `hpas` the HPAs by NAMESPACE/NAME. Raises ConfigError for what it would refuse."""
    manifest = Fields(table, file)
    subject, notes = subject_of(manifest, namespace), list[str]()
    kind, spec = "CronHorizontalPodAutoscaler", manifest.table("spec")
    reference = spec.table("scaleTargetRef")
    if reference.any("kind") == "HorizontalPodAutoscaler":
        how, target = "floor", _target_of_hpa(reference, subject.namespace, hpas or {}, file, notes)
    else:
        how, target = "exact", target_of(reference, subject.namespace, notes)
    excluded = _dates(spec, years, notes)
    entries = [entry for job in spec.tables("jobs") if (entry := _instant(job, how, zone, excluded, notes))]
    notes += unknown_fields(manifest)
    counts = [entry["replicas"] for entry in entries]
    if target is None or not any(counts):
        if target is not None:
            notes.append("spec.jobs: none of them sets a count above 0 again and again: no policy is written")
        return Imported(kind, subject.namespace, subject.name, None, (), tuple(notes))
    notes.append(f"spec.jobs: times are in {zone}; CronHPA has that of its own process (--zone)")
    if how == "exact":
        notes.append("spec.jobs: a count holds until the next job, whoever else changes it; CronHPA sets it once")
    policy: Table = {
        "mode": "observe",
        "workload": target,
        "replicas": {"min": min(counts), "max": max(counts)},
        "strategy": [{"type": "schedule", "instants": entries}],
    }
    return Imported(kind, subject.namespace, subject.name, policy, (), tuple(notes))


def _target_of_hpa(
    reference: Fields, namespace: str, hpas: Mapping[str, Any], file: str, notes: list[str]
) -> Table | None:
    """The workload that an HPA scales, whose minimum CronHPA writes."""
    name = reference.text("name")
    reference.ignore("apiVersion")
    hpa = hpas.get(f"{namespace}/{name}")
    if hpa is None:
        text = f"HorizontalPodAutoscaler {name} is not among what is read: name its file too"
        notes.append(f"{reference.where('name')}: {text}")
        return None
    text = "its counts are floors: put this [[strategy]] into the policy that the HPA becomes, whose bounds hold"
    notes.append(f"{reference.where('name')}: CronHPA rewrites the HPA's minReplicas and maxReplicas; {text}")
    spec = Fields(hpa, file).table("spec")
    return target_of(spec.table("scaleTargetRef"), namespace, [])


def _instant(job: Fields, how: str, zone: str, excluded: list[str], notes: list[str]) -> Table | None:
    """A job as an instant; None: it has no equivalent."""
    name, schedule, replicas = job.text("name", ""), job.text("schedule"), job.whole("targetSize", 0)
    once = job.flag("runOnce", default=False)
    if replicas < 0:
        raise job.wrong("targetSize", f"must be >= 0, is {replicas}")
    if once or schedule.startswith(("@date", "@every")):
        why = "happens once" if once or _DATE.fullmatch(schedule) else "counts from its start"
        notes.append(f"{job.path}: {shown(schedule)} {why}: a calendar has no such entry, and it was left out")
        return None
    cron = cron_of(schedule)
    if not cron:
        raise job.wrong("schedule", f"must have six fields, second first, is {shown(schedule)}")
    second = schedule.split()[0]
    if second not in ("0", "00", cron.split()[0]) and not second.startswith("@"):
        notes.append(f"{job.where('schedule')}: the second {second} becomes 0")
    entry: Table = {"at": cron, "zone": zone, "replicas": replicas, "as": how}
    return {**({"name": name} if name else {}), **entry, **({"except": excluded} if excluded else {})}


def cron_of(schedule: str) -> str:
    """A cron expression of six fields with five, or with the second where it is one number; empty: it is none."""
    if schedule in _MACROS:
        return _MACROS[schedule]
    fields = schedule.replace("?", "*").split()
    if len(fields) != 6:
        return ""
    second, *rest = fields
    text = " ".join(rest)
    return f"{second} {text}" if second.isdecimal() and int(second) else text


def _dates(spec: Fields, years: Sequence[int], notes: list[str]) -> list[str]:
    """The excluded dates of these years."""
    dates: list[str] = []
    texts = spec.any("excludeDates") or []
    for text in texts if isinstance(texts, list) else []:
        fields = str(text).replace("?", "*").split()
        day, month = (fields[3], fields[4]) if len(fields) == 6 else ("", "")
        valid = day.isdecimal() and month.isdecimal() and 1 <= int(month) <= 12
        if not valid or not 1 <= int(day) <= _DAYS[int(month) - 1]:
            notes.append(f"spec.excludeDates: {shown(text)} is no single date: write it as `except`")
            continue
        dates += [f"{year}-{int(month):02}-{int(day):02}" for year in years if _exists(year, int(month), int(day))]
    if dates:
        notes.append(f"spec.excludeDates: they are written for {', '.join(map(str, years))}, as dates have years here")
    return dates


def _exists(year: int, month: int, day: int) -> bool:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return leap or (month, day) != (2, 29)
