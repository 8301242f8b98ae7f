"""Which fault is tried with which feature, and at which step, by what: `python -m tests.faults.grid` prints
docs/fault-grid.md, from the tests that docs/faults.md names, their tables, and what the campaign draws.

Knows where tests are, what they are about, and why a fault and a feature do not meet; runs nothing.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from tests.faults.means import TESTS, places
from tests.faults.plan import SOURCES, Blow, drawn, features
from tests.faults.rows import PAGE, named
from tests.kube import test_interrupted, test_moves, test_moves_surge

SEEDS = range(1000)
SCALE, JOBS, RESIZE, PLACE, PREEMPT, MOVE, SURGE = FEATURES = (
    "scale",
    "Jobs",
    "resize",
    "place",
    "preempt",
    "move",
    "surge",
)
"""What daemons do; `move` is of bare pods, `surge` of a controller's pods whose replacement starts first."""
SAMPLES, PODS, EVICTING = (SCALE, JOBS, RESIZE), (PLACE, PREEMPT, MOVE, SURGE), (PREEMPT, MOVE, SURGE)

ABOUT: Mapping[str, Sequence[str]] = {
    "base/": FEATURES,
    "journal/": FEATURES,
    "model/test_controllers.py": (MOVE, SURGE),
    "cluster/kubernetes/test_bind.py": (PLACE,),
    "cluster/kubernetes/test_pod_actions.py": (PLACE,),
    "cluster/kubernetes/test_evict.py": EVICTING,
    "cluster/kubernetes/test_restore": (MOVE,),
    "cluster/kubernetes/test_copies.py": (MOVE,),
    "cluster/kubernetes/test_convert.py": (MOVE, SURGE),
    "cluster/kubernetes/test_scale.py": (SCALE,),
    "cluster/kubernetes/test_marks.py": (SCALE, PREEMPT, SURGE),
    "cluster/kubernetes/": FEATURES,
    "cluster/simulated/": (SCALE,),
    "cluster/test_disruption": (SCALE, JOBS, *EVICTING),
    "config/": FEATURES,
    "decision/pool/test_moves.py": (MOVE, SURGE),
    "decision/pool/test_races.py": (PLACE,),
    "decision/workload/test_jobs.py": (JOBS,),
    "decision/workload/": (SCALE,),
    "decision/": SAMPLES,
    "kit/test_surge.py": (SURGE,),
    "kube/test_daemon.py": (SCALE,),
    "kube/test_interrupted.py": (SCALE, JOBS, RESIZE, PLACE, PREEMPT),
    "kube/test_limits.py": (SCALE,),
    "kube/test_moves.py": (MOVE,),
    "kube/test_moves_surge.py": (SURGE,),
    "kube/test_moves_admission.py": (MOVE,),
    "kube/test_moves": (MOVE, SURGE),
    "kube/test_placing.py": (PLACE, *EVICTING),
    "kube/test_preemption.py": (PREEMPT,),
    "kube/test_broken_watches.py": FEATURES,
    "kube/test_cluster.py": FEATURES,
    "kube/test_plane.py": FEATURES,
    "kube/test_rolling_restart.py": (SCALE, PLACE, MOVE),
    "kube/test_starved.py": (SCALE, PLACE, MOVE),
    "kube/test_tls.py": SAMPLES,
    "kube/": SAMPLES,
    "limits/": (SCALE,),
    "plugins/test_schedule_days.py": (SCALE,),
    "runtime/pools/test_placer_room.py": (PREEMPT,),
    "runtime/pools/test_placer.py": (PLACE,),
    "runtime/pools/": (MOVE, SURGE),
    "runtime/": SAMPLES,
    "sources/": SAMPLES,
    "telemetry/": FEATURES,
    "test_formats.py": FEATURES,
    "test_isolation.py": SAMPLES,
    "test_": FEATURES,
    "ui/": FEATURES,
}
"""What the tests of a file are about, by how its path begins; the first that fits counts. All features: what they
share, such as watches, the journal, the lease or the process."""

FAULTS: Mapping[tuple[str, str], Sequence[str]] = {
    ("API server", "late"): ("F16",),
    ("API server", "refused"): ("F16", "F43"),
    ("API server", "lost"): ("F22",),
    ("API server", "status"): ("F21", "F23", "F24"),
    ("API server", "expired"): ("F17",),
    ("API server", "truncated"): ("F22", "F59"),
    ("API server", "drip"): ("F16",),
    ("API server", "silent"): ("F16", "F18"),
    ("API server", "old answer"): ("F20",),
    ("API server", "cut"): ("F19",),
    ("API server", "gone"): ("F17",),
    ("API server", "twice"): ("F19",),
    ("API server", "reordered"): ("F19",),
    ("Prometheus", ""): ("F1", "F6", "F10"),
    ("Prometheus", "old answer"): ("F4",),
    ("MQTT", ""): ("F14",),
    ("MQTT", "twice"): ("F11",),
    ("MQTT", "late"): ("F12",),
    ("", "kill"): ("F28", "F45", "F47"),
    ("", "suspend"): ("F42", "F49"),
    ("", "unready"): ("F30",),
    ("", "restart"): ("F16",),
    ("", "sweep"): ("F29", "F30"),
    ("", "no start"): ("F29", "F32"),
    ("", "no metrics"): ("F1", "F3", "F5"),
    ("", "no prometheus"): ("F1", "F4", "F5", "F6", "F7"),
    ("", "no broker"): ("F5", "F13", "F14", "F15"),
}
"""What the campaign draws, by server and kind; a kind of "" stands for all others of its server."""

BY_TITLE = {"preemption": PREEMPT, "Jobs": JOBS, "resizing": RESIZE}
ALWAYS = (SCALE, PLACE, MOVE, SURGE)
"""What the daemons of every episode do."""

MEETS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys([*SOURCES, *SOURCES.values(), "no metrics"], (SCALE,)),
    "sweep": (MOVE,),
}
"""The features that faults of a server, or of a kind, are about; the others are about all."""

NO_SAMPLES = (
    "it reads no sample of a workload; samples of nodes are graded by the same code, and F36 is about losing them"
)
NO_COUNT = "it is about what else changes a count, or what a count may be"
NO_EVICTION = "it is about pods that are evicted"
NO_RECORD = "it is about a pod that elasticd creates again"
NO_BIND = "it is about a pod for which there must be room"
EMPTY: Sequence[tuple[Iterable[int], Sequence[str], str]] = (
    ((39,), FEATURES, "it cannot occur: elasticd changes no labels of pods"),
    ((*range(1, 16), 41), PODS, NO_SAMPLES),
    ((52,), PODS, "plugins that place or move are waited for up to 30 s (weaknesses)"),
    ((10, 11, 12, 13, 14, 15), SAMPLES, "it is about the series, which these share"),
    ((37, 38, 41), (JOBS, RESIZE), NO_COUNT),
    ((37,), PODS, NO_COUNT),
    ((38,), (PLACE, *EVICTING), NO_COUNT),
    ((25, 29, 60), (*SAMPLES, PLACE, PREEMPT, SURGE), NO_RECORD),
    ((31, 35, 40), (*SAMPLES, PLACE, PREEMPT), NO_EVICTION),
    ((36,), (PLACE, RESIZE), "it is about what takes something away"),
    ((30,), SAMPLES, "it is about a node that is chosen"),
    ((32, 33, 34), FEATURES, NO_BIND),
    ((56,), PODS, "of the API server all features have the same session (F24), and these have no other server"),
    ((20, 21, 22, 23, 26, 28, 42, 43, 45, 51), FEATURES, "not tried for itself: its writes have the same path"),
    ((44,), FEATURES, "it is about times in a policy"),
)
"""Why a fault, by its number, is not tried with a feature: the first that fits. Where a cell is not empty, none is
needed."""


class Cell(NamedTuple):
    """Whether there are tests of a fault with a feature, against real servers and others, and in how many episodes of
    the first seeds both are."""

    real: bool = False
    others: bool = False
    episodes: int = 0
    reason: str = ""


def about(path: str) -> Sequence[str]:
    """The features that the tests of a file are about. Raises ValueError where that is not known."""
    found = next((found for begin, found in ABOUT.items() if path.startswith(begin)), None)
    if found is None:
        raise ValueError(f"{path}: ABOUT does not say which features its tests are about")
    return found


def tested(faults: Mapping[str, Sequence[str]]) -> Mapping[tuple[str, str], set[bool]]:
    """Of each fault and feature whether the tests that a page names for it are against real servers."""
    found = defaultdict[tuple[str, str], set[bool]](set)
    for fault, tests in faults.items():
        for place in (str(path.relative_to(TESTS)) for test in tests for path in places().get(test, ())):
            for feature in about(place):
                found[fault, feature].add(place.startswith("kube/"))
    return found


@cache
def met(seed: int) -> frozenset[tuple[str, str]]:
    """The faults of a seed's episode, each with the features that it meets."""
    there = features(seed)
    titles = [*ALWAYS, *(BY_TITLE[name] for name in there if name in BY_TITLE)]
    found = set[tuple[str, str]]()
    for trouble in drawn(seed):
        server = "" if isinstance(trouble, Blow) else trouble.server
        kinds = FAULTS.get((server, trouble.kind)) or FAULTS[server, ""]
        meets = MEETS.get(server) or MEETS.get(trouble.kind) or titles
        found |= {(fault, title) for fault in kinds for title in meets if title in titles}
    return frozenset(found)


def cells(faults: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Cell]:
    """Every fault with every feature. Raises ValueError for one that is empty without a reason."""
    tests, episodes = tested(faults), defaultdict[tuple[str, str], int](int)
    for seed in SEEDS:
        for pair in met(seed):
            episodes[pair] += 1
    found = {}
    for fault, feature in ((fault, feature) for fault in faults for feature in FEATURES):
        by = tests[fault, feature]
        cell = Cell(True in by, False in by, episodes[fault, feature])
        found[fault, feature] = cell if any(cell) else Cell(reason=why(fault, feature))
    return found


def why(fault: str, feature: str) -> str:
    """Why a fault is not tried with a feature."""
    for numbers, among, reason in EMPTY:
        if int(fault[1:]) in numbers and feature in among:
            return reason
    raise ValueError(f"{fault} is not tried with {feature}, and no reason is given")


RUNS: Mapping[str, Callable[[str], str]] = {
    "test_a_restart_after_any_kill": lambda moment: f"killed {moment}, restart",
    "test_after_a_kill_and_a_restart": lambda moment: f"killed {moment}, restart",
    "test_a_takeover_after_any_kill": lambda moment: f"killed {moment}, take-over",
    "test_after_a_kill_and_a_takeover": lambda moment: f"killed {moment}, take-over",
    "test_a_lost": lambda moment: "answer lost" if moment == "lost" else "request lost",
    "test_a_stopped_leader": lambda _: "stopped at it",
    "test_a_leader_cut_off": lambda _: "cut off at it",
    "test_a_leader_away": lambda moment: "stopped at it" if moment == "undone" else "cut off at it",
}
"""What each test of a step's writes does, by how its name begins."""

COLUMNS = (
    *(f"killed {moment}, {then}" for then in ("restart", "take-over") for moment in ("before", "after")),
    "answer lost",
    "request lost",
    "stopped at it",
    "cut off at it",
)
MODULES = {test_interrupted: "", test_moves: "bare pod", test_moves_surge: "surge"}


def steps() -> dict[tuple[str, str], set[str]]:
    """How each step of each work is interrupted, by the tables of the tests."""
    found: dict[tuple[str, str], set[str]] = {}
    for module, title in MODULES.items():
        for name, test in vars(module).items():
            run = next((run for begin, run in RUNS.items() if name.startswith(begin)), None)
            for values in _rows(test) if run else ():
                work, step = (title or values["name"]), values["step"]
                found.setdefault((work, step), set()).add(run(values.get("moment", "")) if run else "")
    return found


def _rows(test: Any) -> Iterator[dict[str, str]]:
    """The rows of a test's table, by the names of its arguments."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names, rows = mark.args
            keys = [names] if isinstance(names, str) else names
            for row in rows:
                values = row.values if hasattr(row, "values") else (row,)
                yield dict(zip(keys, values, strict=True))


READ = "a read: nothing is written that could be lost, or written late"


def _step_table() -> Iterator[str]:
    yield "| work | step | " + " | ".join(COLUMNS) + " |"
    yield "|---|---|" + "---|" * len(COLUMNS)
    for (work, step), runs in steps().items():
        marks = ["x" if column in runs else "-" for column in COLUMNS]
        yield f"| {work} | {step} | " + " | ".join(marks) + " |"


def _fault_table(found: Mapping[tuple[str, str], Cell], faults: Iterable[str], notes: Sequence[str]) -> Iterator[str]:
    yield "| fault | " + " | ".join(FEATURES) + " |"
    yield "|---|" + "---|" * len(FEATURES)
    for fault in faults:
        row = [_shown(found[fault, feature], notes) for feature in FEATURES]
        yield f"| {fault} | " + " | ".join(row) + " |"


def _shown(cell: Cell, notes: Sequence[str]) -> str:
    if cell.reason:
        return f"({'abcdefghijklmnopqrstuvwxyz'[notes.index(cell.reason)]})"
    return " ".join(filter(None, ("R" * cell.real, "T" * cell.others, str(cell.episodes or ""))))


HEAD = f"""# Which faults are tried with what

`python -m tests.faults.grid` prints this page: from the tests that [faults.md](faults.md) names, from the tables of
those that interrupt writes, and from what the [campaign](faults.md#the-campaign) draws from seeds {SEEDS[0]} to
{SEEDS[-1]}.

## Faults and features

R: tests against a real API server, Prometheus or Mosquitto; T: other tests, of the feature or of what it shares with
others (watches, the journal, the Lease, the process, the grading of samples). A number counts the episodes of those
seeds in which the fault is drawn while the daemons do this. A letter in brackets says why a cell is empty; the reasons
stand below. `move` is of bare pods, `surge` of pods of a controller whose replacement starts first.
"""
STEPS = f"""
## Steps of writes

Each write of each work, and how it is interrupted there, on a real API server ([interrupted](interrupted.md),
[moves](moves.md#tests)). Without a cross:
{READ}.
"""


def page() -> str:
    """docs/fault-grid.md."""
    faults = named(PAGE.read_text())
    found = cells(faults)
    notes = list(dict.fromkeys(cell.reason for cell in found.values() if cell.reason))
    reasons = [f"- ({'abcdefghijklmnopqrstuvwxyz'[index]}) {note}" for index, note in enumerate(notes)]
    return "\n".join([HEAD, *_fault_table(found, faults, notes), "", *reasons, STEPS, *_step_table(), ""])


if __name__ == "__main__":
    sys.stdout.write(page())
