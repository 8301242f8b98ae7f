"""What a decision is made from beside its samples and the past, cut into parts of which only the changed are kept.

Pure. Knows how a case is taken apart and put together again; knows nothing of files, nor of how policies are read.
"""

from collections.abc import Iterable, Mapping
from math import ulp
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs
from msgspec.structs import replace

from elasticd.decision.workload.asking import Case
from elasticd.model.disruption import PolicyCaps
from elasticd.model.forecast import Forecast
from elasticd.model.history import Past
from elasticd.model.jobs import Job
from elasticd.model.policy import Policy
from elasticd.model.records import Basis, Decision
from elasticd.model.workload import Node, Observation, Pod, Ref, Room, Series, Workload

Parts = dict[str, object]
Difference = float | tuple[float, int]
"""What is added, and by how many doubles the sum is off then."""
Differences = dict[str, Difference]
"""By resource."""
Subject = tuple[str, Ref] | None
"""A policy and a workload; None: the nodes, which all see."""

_DIGITS = 6
"""After the point, of a change of what is free: more is no shorter than the amount itself."""

_OFF = 99
"""Doubles that lie between a sum and what it should be, at most."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def parts_of(case: Case) -> Parts:
    """What the decision of a case is made from, without samples, the past and nodes."""
    observation = case.observation
    workload = observation.workload
    parts: Parts = {"policy": case.policy, "caps": case.caps, "off": tuple(sorted(case.off))}
    parts |= {"fault": observation.fault, "autoscaler": observation.autoscaler, "nodes": observation.nodes}
    parts["rooms"] = observation.rooms is not None
    parts["workload"] = replace(workload, jobs=(), gone=()) if workload.jobs or workload.gone else workload
    parts |= {f"pod/{pod.name}": pod for pod in observation.pods}
    parts |= {f"job/{job.name}": job for job in workload.jobs}
    parts |= {f"gone/{job.uid}": job for job in workload.gone}
    for name, series in observation.series.items():
        if series.forecast is not None:
            parts[f"forecast/{name}"] = series.forecast
    return parts


def rooms_of(case: Case) -> Parts:
    """The nodes that the case sees, and what is left of each, which changes more often."""
    rooms = case.observation.rooms or ()
    nodes: Parts = {f"node/{room.node.name}": room.node for room in rooms}
    return nodes | {f"free/{room.node.name}": room.free for room in rooms}


def same(before: Case, now: Case) -> bool:
    """Whether nothing has changed that `parts_of` looks at, as far as identity shows."""
    old, new = before.observation, now.observation
    return (
        old.workload is new.workload
        and old.pods is new.pods
        and before.policy is now.policy
        and before.caps is now.caps
        and before.off == now.off
        and (old.fault, old.autoscaler, old.nodes) == (new.fault, new.autoscaler, new.nodes)
        and (old.rooms is None) == (new.rooms is None)
        and _forecasts(old) == _forecasts(new)
    )


def _forecasts(observation: Observation) -> list[tuple[str, int]]:
    return [(name, id(series.forecast)) for name, series in observation.series.items() if series.forecast is not None]


def change(at: float, subject: Subject, before: Parts | None, now: Parts) -> Basis | None:
    """What of the parts has changed; None: nothing. Without those before it is the whole."""
    known = before or {}
    parts, fields, like, by = dict[str, Raw](), dict[str, Raw](), dict[str, str](), dict[str, Differences]()
    last = _last_of_each_kind(known)
    ended = _ended(known, now)
    for name, part in now.items():
        old = known.get(name, Ellipsis)
        if old is part or old == part or (ended and name.startswith("gone/") and name not in known):
            continue
        if isinstance(part, Struct) and type(old) is type(part):
            fields[name] = Raw(_encode(_changed_fields(old, part)))
        elif (differences := _of_amounts(name, old, part)) is not None:
            by[name.partition("/")[2]] = differences
        elif isinstance(part, Pod | Job) and (alike := _alike(name, part, known, last)):
            differ = _changed_fields(known[alike], part)
            if alike != last.get(name.partition("/")[0]) or "uid" not in differ:
                like[name] = alike
            if name.endswith(f"/{part.name}"):  # which says its name
                differ.pop("name", None)
            fields[name] = Raw(_encode(differ))
        else:
            parts[name] = Raw(_encode(_without_nulls(part) if isinstance(part, Policy) else part))
    moved = {f"job/{name}" for name in ended}
    gone = tuple([name for name in known if name not in now and name not in moved])
    if before is not None and not (parts or fields or by or gone or ended):
        return None
    policy, workload = subject or ("", None)
    return Basis(at, policy, workload, parts, fields, like, by, gone, ended, before is None)


def _ended(known: Parts, now: Parts) -> tuple[str, ...]:
    """The names of the Jobs that are gone since, if each is remembered as it was; else none, to keep their order."""
    jobs = [part for name, part in now.items() if name.startswith("gone/") and name not in known]
    names = [job.name for job in jobs if isinstance(job, Job) and known.get(f"job/{job.name}") == job]
    return tuple(names) if len(names) == len(jobs) and not any(f"job/{name}" in now for name in names) else ()


def _without_nulls(value: Any) -> Any:
    """What is encoded for a record, without the options that are null where they are left out too."""
    if isinstance(value, Struct) and not value.__struct_config__.array_like:
        config = value.__struct_config__
        tagged = {config.tag_field: config.tag} if config.tag_field else {}
        pairs = [(field, getattr(value, field.name)) for field in structs.fields(value)]
        given = [(field, option) for field, option in pairs if option is not None or field.default is not None]
        return tagged | {field.encode_name: _without_nulls(option) for field, option in given}
    if isinstance(value, tuple | list):
        return [_without_nulls(item) for item in value]
    return value


def _last_of_each_kind(known: Iterable[str]) -> dict[str, str]:
    """By kind, the last name of a part of it."""
    return {name.partition("/")[0]: name for name in sorted(known) if "/" in name}


def _of_amounts(name: str, old: object, new: object) -> Differences | None:
    if name.startswith("free/") and isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return _differences(old, new)
    return None


def _differences(old: Mapping[str, float], new: Mapping[str, float]) -> Differences | None:
    """By how much each amount has changed that has; None: some cannot be said in a few digits."""
    by = {name: _difference(old[name], value) for name, value in new.items() if value != old[name]}
    known = {name: difference for name, difference in by.items() if difference is not None}
    return known if len(known) == len(by) else None


def _difference(old: float, new: float) -> Difference | None:
    """A number of few digits that makes of one double the other, or that and how many doubles lie between: what is free
    of a node comes from many subtractions, each of them rounded."""
    for digits in range(_DIGITS + 1):
        summand = round(new - old, digits)
        least = int(summand) if summand.is_integer() else summand
        if old + summand == new:
            return least
        off = (new - (old + summand)) / ulp(old + summand)
        if abs(off) <= _OFF and off.is_integer() and _plus(old, (least, int(off))) == new:
            return (least, int(off))
    return None


def _plus(old: float, difference: Difference) -> float:
    if not isinstance(difference, tuple):
        return old + difference
    amount = old + difference[0]
    return amount + difference[1] * ulp(amount)


def _alike(name: str, part: Pod | Job, known: Parts, last: Mapping[str, str]) -> str:
    """The part that a new one is most like: of a Job that is gone itself, else the last of its kind; empty: there is
    none. Those of one kind come all in this way, or none does, so that their order is kept."""
    kind, _, key = name.partition("/")
    own = f"job/{part.name}"
    if kind == "gone":
        return own if isinstance(known.get(own), Job) else last.get("gone", "") or last.get("job", "")
    return last.get(kind, "") if key == part.name else ""


def _changed_fields(old: object, new: Struct) -> dict[str, Any]:
    pairs = [(name, getattr(old, name), getattr(new, name)) for name in new.__struct_fields__]
    return _joined({name: value for name, was, value in pairs if was != value})


def _joined(fields: dict[str, Any]) -> dict[str, Any]:
    """With one key for fields of the same number, as a pod's times mostly are: their names, with spaces between."""
    names: dict[object, list[str]] = {}
    for name, value in fields.items():
        names.setdefault((type(value), value) if type(value) in (int, float) else name, []).append(name)
    return {" ".join(group): fields[group[0]] for group in names.values()}


def _apart(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for names, value in fields.items() for name in names.split()}


def folded(before: Mapping[str, bytes], basis: Basis) -> dict[str, bytes]:
    """The parts after a basis, in the order in which they came."""
    gone = {*basis.gone, *(f"job/{name}" for name in basis.ended)}
    kept = {} if basis.whole else {name: part for name, part in before.items() if name not in gone}
    for job in [before[f"job/{name}"] for name in basis.ended if f"job/{name}" in before]:
        kept[f"gone/{_decode(job)['uid']}"] = job
    last = _last_of_each_kind(before) if basis.fields.keys() - before.keys() - basis.like.keys() else {}
    for name, written in basis.fields.items():
        (kind, _, key), fields = name.partition("/"), _apart(_decode(written))
        # Of a part that was there and was lost, what is written says nothing of the rest.
        own = name in before or "uid" not in fields
        alike = basis.like.get(name) or (name if own else last.get(kind, name))
        known = _decode(before.get(alike, b"{}"))
        if alike != name and kind != "gone":
            known["name"] = key
        kept[name] = _encode({**known, **fields})
    for node, differences in basis.by.items():
        free = _decode(kept.get(f"free/{node}", b"{}"))
        sums = {name: _plus(free[name], difference) for name, difference in differences.items() if name in free}
        kept[f"free/{node}"] = _encode({**free, **sums})
    return kept | {name: bytes(part) for name, part in basis.parts.items()}


class Remade:
    """A case of the parts that a journal has, for one decision of it."""

    def __init__(self, decision: Decision, parts: Mapping[str, bytes], rooms: Mapping[str, bytes]) -> None:
        self._decision, self._parts, self._rooms = decision, parts, rooms

    def observation(self) -> Observation:
        """What was known of the workload."""
        decision, parts = self._decision, self._parts
        workload = self._decode("workload", Workload)
        if jobs := self._all("job/", Job):
            workload = replace(workload, jobs=tuple(sorted(jobs, key=lambda job: job.name)))
        if gone := self._all("gone/", Job):
            workload = replace(workload, gone=tuple(gone))
        return Observation(
            at=decision.at,
            workload=workload,
            pods=tuple(sorted(self._all("pod/", Pod), key=lambda pod: pod.name)),
            series={series.name: self._with_forecast(series) for series in decision.series},
            confirmed=decision.confirmed or 0.0,
            fault=self._decode("fault", tuple[str, str]),
            autoscaler=self._decode("autoscaler", str),
            rooms=self._rooms_then() if self._decode("rooms", bool) else None,
            nodes=msgspec.json.decode(parts["nodes"], type=dict[str, dict[str, float]]),
        )

    def _rooms_then(self) -> tuple[Room, ...]:
        """All nodes, ordered by name."""
        parts, names = self._rooms, sorted(name.removeprefix("node/") for name in self._rooms if name[:5] == "node/")
        return tuple(
            [
                Room(
                    msgspec.json.decode(parts[f"node/{name}"], type=Node),
                    msgspec.json.decode(parts[f"free/{name}"], type=dict[str, float]),
                )
                for name in names
            ]
        )

    def case(self, policy: Policy, hooks: Any, past: Past) -> Case:
        """The case under this policy, with what is remembered."""
        off, caps = self._decode("off", tuple[str, ...]), self._decode("caps", PolicyCaps | None)
        return Case(policy, self.observation(), past, hooks, frozenset(off), caps)

    def _decode(self, name: str, kind: Any) -> Any:
        return msgspec.json.decode(self._parts[name], type=kind)

    def _all(self, prefix: str, kind: Any) -> list[Any]:
        return [self._decode(name, kind) for name in self._parts if name.startswith(prefix)]

    def _with_forecast(self, series: Series) -> Series:
        part = f"forecast/{series.name}"
        return replace(series, forecast=self._decode(part, Forecast)) if part in self._parts else series
