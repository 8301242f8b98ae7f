"""What a decision is made from beside its samples and the past, cut into parts of which only the changed are kept.

Pure. Knows how a case is taken apart and put together again; knows nothing of files, nor of how policies are read.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
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
Subject = tuple[str, Ref] | None
"""A policy and a workload; None: the nodes, which all see."""

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
    parts, fields, like = dict[str, Raw](), dict[str, Raw](), dict[str, str]()
    last = {name.partition("/")[0]: name for name in known if "/" in name}
    for name, part in now.items():
        old = known.get(name, Ellipsis)
        if old is part or old == part:
            continue
        if isinstance(part, Struct) and type(old) is type(part):
            fields[name] = Raw(_encode(_changed_fields(old, part)))
        elif isinstance(part, Pod | Job) and (alike := _alike(name, part, known, last)):
            like[name] = alike
            differ = _changed_fields(known[alike], part)
            if name.endswith(f"/{part.name}"):  # which says its name
                differ.pop("name", None)
            fields[name] = Raw(_encode(differ))
        else:
            parts[name] = Raw(_encode(part))
    gone = tuple([name for name in known if name not in now])
    if before is not None and not (parts or fields or gone):
        return None
    policy, workload = subject or ("", None)
    return Basis(at, parts, fields, like, gone, before is None, policy, workload)


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
    return {name: value for name, was, value in pairs if was != value}


def folded(before: Mapping[str, bytes], basis: Basis) -> dict[str, bytes]:
    """The parts after a basis, in the order in which they came."""
    kept = {} if basis.whole else {name: part for name, part in before.items() if name not in basis.gone}
    for name, fields in basis.fields.items():
        known = _decode(before.get(basis.like.get(name, name), b"{}"))
        if name in basis.like and not name.startswith("gone/"):
            known["name"] = name.partition("/")[2]
        kept[name] = _encode({**known, **_decode(fields)})
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
