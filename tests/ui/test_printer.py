"""What `run --decisions` prints of pods: what is news, with how it ended."""

import errno
import threading
from io import StringIO
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from elasticd.kit.surge import BEGUN
from elasticd.model.actions import Bind, Evict, Nominate, Resize
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import Decision, Outcome, Sizing
from elasticd.model.workload import Ref
from elasticd.ui.printer import Printer, PrinterThread
from elasticd.ui.terminal import Terminal
from tests.kit.pools import NOW
from tests.kit.records import WEB, decision, outcome

POD, LOW = Ref("shop", "Pod", "web", "v1"), Ref("shop", "Pod", "low", "v1")
BINDS = PodDecision(
    "pool:web@1", NOW, "pool", POD, "act", "bind", "Placed", node="a", actions=(Bind(POD, "uid-web", "a"),)
)
PREEMPTS = PodDecision(
    "pool:web@1",
    NOW,
    "pool",
    POD,
    "act",
    "preempt",
    "Preempts",
    "shop/low is preempted on a",
    node="a",
    actions=(Nominate(POD, "uid-web", "a"), Evict(LOW, "uid-low", "a")),
)
WAITS = PodDecision("pool:web@1", NOW, "pool", POD, "act", "wait", "Unschedulable", "0/1 nodes are available")
LEAVES = MoveDecision(
    "pool:web@1",
    NOW,
    "pool",
    POD,
    "act",
    "move",
    "drain",
    "Drain",
    "a is cordoned",
    "uid-web",
    "a",
    "b",
    action=Evict(POD, "uid-web", "a"),
)
STAYS = replace(LEAVES, verdict="refuse", refusal="NoOtherNode", message="a is cordoned: 0/1 nodes are available")
OVER = replace(LEAVES, verdict="over", reason="NotWanted", message="it need not go any more", action=None)
FAILED = replace(STAYS, pod=Ref("", "Pod", "", "v1"), reason="PluginFailed", message="drain: rebind_pods raised")

BOUND = PodOutcome("pool:web@1", NOW + 1, "pool", POD, POD, "bind", "a", "done")
NOTED = replace(BOUND, action="nominate")
GONE = replace(BOUND, action="evict", about=LOW)
BLACKOUT = replace(NOTED, result="refused", reason="Blackout", message="no pod is moved: until 06:00")
MOVED = replace(BOUND, action="evict")
DISTURBED = replace(MOVED, result="refused", reason="Disturbed", message="1 pod of its controller went")
AGAIN = replace(DISTURBED, decision="pool:web@9")
BEGAN, RAISED = replace(MOVED, message=BEGUN), replace(MOVED, action="surge", reason="Raise", message="one more")
SURGED = replace(RAISED, reason="Moved", message="web left a")

Record = PodDecision | MoveDecision | PodOutcome


def lines(records: list[Record], *, dry_run: bool = False) -> list[str]:
    """What is printed of these, without the time."""
    console = Console(width=400, color_system=None)
    printer = Printer(console, dry_run=dry_run)
    with console.capture() as capture:
        for one in records:
            printer.on(one)
    return [" ".join(line.split()[1:]) for line in capture.get().splitlines()]


@pytest.mark.parametrize(
    ("records", "printed"),
    [
        pytest.param([BINDS], [], id="it is not known yet how it ends"),
        pytest.param([BINDS, BOUND], ["bind to a: Placed"], id="bound"),
        pytest.param(
            [BINDS, replace(BOUND, result="conflict", reason="Conflict", message="it is bound")],
            ["bind to a: Placed; conflict: Conflict, it is bound"],
            id="another bound it",
        ),
        pytest.param(
            [PREEMPTS, BLACKOUT],
            ["make room on a: Preempts, shop/low is preempted on a; refused: Blackout, no pod is moved: until 06:00"],
            id="a blackout",
        ),
        pytest.param(
            [PREEMPTS, BLACKOUT, PREEMPTS, BLACKOUT, PREEMPTS, NOTED, GONE, PREEMPTS, BLACKOUT],
            [
                "make room on a: Preempts, shop/low is preempted on a; refused: Blackout, no pod is moved: until 06:00",
                "make room on a: Preempts, shop/low is preempted on a",
                "make room on a: Preempts, shop/low is preempted on a; refused: Blackout, no pod is moved: until 06:00",
            ],
            id="in vain again and again",
        ),
        pytest.param([PREEMPTS, NOTED], [], id="noted and not evicted yet"),
        pytest.param(
            [PREEMPTS, NOTED, GONE], ["make room on a: Preempts, shop/low is preempted on a"], id="they have gone"
        ),
        pytest.param(
            [PREEMPTS, NOTED, replace(GONE, result="refused", reason="Budget")],
            ["make room on a: Preempts, shop/low is preempted on a; refused (shop/low): Budget"],
            id="one that may not go",
        ),
        pytest.param([WAITS], ["wait: Unschedulable, 0/1 nodes are available"], id="it waits"),
    ],
)
def test_where_a_pod_goes_is_printed_with_how_it_ended(records: list[Record], printed: list[str]) -> None:
    assert lines(records) == [f"shop/Pod/web {line}" for line in printed]


@pytest.mark.parametrize(
    ("records", "printed"),
    [
        pytest.param([LEAVES], [], id="it is not known yet how it ends"),
        pytest.param([LEAVES, MOVED], ["left a for b: Drain, a is cordoned"], id="it left"),
        pytest.param(
            [LEAVES, DISTURBED, AGAIN, AGAIN],
            ["should leave a for b: Drain, a is cordoned; refused: Disturbed, 1 pod of its controller went"],
            id="refused at every look",
        ),
        pytest.param(
            [LEAVES, DISTURBED, AGAIN, replace(AGAIN, reason="Blackout", message="until 06:00")],
            [
                "should leave a for b: Drain, a is cordoned; refused: Disturbed, 1 pod of its controller went",
                "could not evict from a: refused: Blackout, until 06:00",
            ],
            id="refused for another reason",
        ),
        pytest.param(
            [LEAVES, DISTURBED, replace(LEAVES, id="pool:web@9", target="c"), replace(MOVED, decision="pool:web@9")],
            [
                "should leave a for b: Drain, a is cordoned; refused: Disturbed, 1 pod of its controller went",
                "left a for c: Drain, a is cordoned",
            ],
            id="and let through later",
        ),
        pytest.param(
            [LEAVES, BEGAN, RAISED, SURGED],
            [
                "should leave a for b: Drain, a is cordoned; another is made first",
                "make another first, for a: Moved, web left a",
            ],
            id="by making another first",
        ),
        pytest.param(
            [STAYS],
            ["should leave a: Drain; stays: NoOtherNode, a is cordoned: 0/1 nodes are available"],
            id="it stays",
        ),
        pytest.param(
            [LEAVES, MOVED, replace(STAYS, refusal="Leaving", message="it is being deleted")],
            ["left a for b: Drain, a is cordoned"],
            id="that it is leaving was told when it was let go",
        ),
        pytest.param([OVER], ["no longer to leave a: NotWanted, it need not go any more"], id="wanted no longer"),
    ],
)
def test_a_move_is_printed_when_its_report_changes(records: list[Record], printed: list[str]) -> None:
    assert lines(records) == [f"shop/Pod/web {line}" for line in printed]


def test_a_failing_rebind_pods_is_printed_with_its_policy() -> None:
    assert lines([FAILED]) == ["pool nobody is moved: PluginFailed, drain: rebind_pods raised"]


@pytest.mark.parametrize(
    ("records", "dry_run", "printed"),
    [
        pytest.param([replace(BINDS, mode="observe")], False, "(observe) bind to a: Placed", id="observe, bind"),
        pytest.param(
            [replace(LEAVES, mode="observe")], False, "(observe) would leave a for b: Drain, a is cordoned", id="move"
        ),
        pytest.param(
            [BINDS, replace(BOUND, message="dry run: not sent")],
            True,
            "(dry run) bind to a: Placed",
            id="dry run, bind",
        ),
        pytest.param([WAITS], True, "(dry run) wait: Unschedulable, 0/1 nodes are available", id="dry run, wait"),
        pytest.param([replace(BINDS, mode="observe")], True, "(observe) bind to a: Placed", id="both"),
    ],
)
def test_what_is_only_said_has_a_mark(records: list[Record], dry_run: bool, printed: str) -> None:
    assert lines(records, dry_run=dry_run) == [f"shop/Pod/web {printed}"]


@pytest.mark.parametrize(
    ("mode", "dry_run", "mark"),
    [("act", False, ""), ("observe", False, "(observe) "), ("act", True, "(dry run) ")],
)
def test_of_workloads_too(mode: str, dry_run: bool, mark: str) -> None:
    console = Console(width=400, color_system=None)
    with console.capture() as capture:
        Printer(console, dry_run=dry_run).on(decision(60.0, mode=mode))
    assert f"  {mark}2 -> 3 replicas: " in capture.get()


def of_workloads(*records: Decision | Outcome) -> list[str]:
    """What is printed of these, without the time and the workload."""
    console = Console(width=400, color_system=None)
    printer = Printer(console)
    with console.capture() as capture:
        for one in records:
            printer.on(one)
    return [" ".join(line.split()[2:]) for line in capture.get().splitlines()]


def wants(at: float, replicas: int = 3, **changes: Any) -> Decision:
    """A decision of a policy that only observes."""
    return replace(decision(at, replicas), mode="observe", **changes)


GROWS = "every 30 s (observe) 2 -> 3 replicas: Wanted, more"
OBSERVED = outcome(2.0, 2, 3)


@pytest.mark.parametrize(
    ("records", "printed"),
    [
        pytest.param([wants(1.0), wants(31.0), wants(61.0)], [GROWS], id="the same at every look"),
        pytest.param([wants(1.0), wants(31.0, message="other words")], [GROWS], id="for the same in other words"),
        pytest.param(
            [wants(1.0), wants(31.0, 4), wants(61.0, 4), wants(91.0)],
            [GROWS, "every 30 s (observe) 2 -> 4 replicas: Wanted, more", GROWS],
            id="another count and back",
        ),
        pytest.param(
            [wants(1.0), wants(31.0, verdict="keep", replicas=2)],
            [GROWS, "every 30 s (observe) keep 2 replicas: Wanted, more"],
            id="it is wanted no longer",
        ),
        pytest.param(
            [wants(1.0), wants(31.0, interval=1.0)],
            [GROWS, "every 1 s (observe) 2 -> 3 replicas: Wanted, more"],
            id="another pace",
        ),
        pytest.param(
            [wants(1.0), replace(OBSERVED, result="observed", message="mode = observe")], [GROWS], id="with its outcome"
        ),
        pytest.param(
            [decision(1.0), decision(31.0)],
            ["every 30 s 2 -> 3 replicas: Wanted, more"] * 2,
            id="who acts says so each time",
        ),
    ],
)
def test_what_is_only_observed_is_printed_once(records: list[Decision | Outcome], printed: list[str]) -> None:
    assert of_workloads(*records) == printed


def test_a_resize_that_is_only_observed_is_printed_once() -> None:
    resizing = Sizing(resizes=(Resize(WEB, "uid", "web-0", {"main": {"cpu": 0.5}}, {"main": {"cpu": 0.7}}),))
    told = of_workloads(*[wants(at, verdict="keep", sizing=resizing) for at in (1.0, 31.0, 61.0)])
    assert len([line for line in told if "web-0" in line]) == 1


def test_a_broken_pipe_is_logged_once_and_ends_printing(caplog: pytest.LogCaptureFixture) -> None:
    class Closed(StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    class Screen(Console):
        on_broken_pipe = Terminal.on_broken_pipe

    printer = Printer(Screen(file=Closed(), width=400, color_system=None))
    for at in (1.0, 31.0, 61.0):
        printer.on(decision(at))
    assert [one.getMessage() for one in caplog.records] == [
        "--decisions: nobody reads them any more: no more are printed, all else goes on"
    ]


def test_names_cannot_write_to_the_terminal() -> None:
    (line,) = lines([replace(WAITS, pod=Ref("shop", "Pod", "hi\x1b[31m", "v1"))])
    assert line.startswith("shop/Pod/hi\\x1b[31m wait: ")


def test_unanswered_decisions_are_printed_before_they_exceed_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elasticd.ui.printer.MOST", 1)
    other = replace(BINDS, id="pool:other@2", pod=LOW)
    assert lines([BINDS, other]) == ["shop/Pod/web bind to a: Placed; no answer is recorded"]


def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    class Full(StringIO):
        room = True

        def write(self, text: str) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

    file = Full()
    printer = Printer(Console(file=file, width=400, color_system=None))
    for room, record in ((True, WAITS), (False, OVER), (True, STAYS)):
        file.room = room
        printer.on(record)
    assert [line.split()[2] for line in file.getvalue().splitlines()] == ["wait:", "should"]


class Unread(StringIO):
    """A pipe that nobody reads, until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.release = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.release.wait()
        return super().write(text)


def test_what_waits_for_a_reader_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    pipe = Unread()
    printer = PrinterThread(Printer(Console(file=pipe)), backlog=2)
    printer.on(decision(0.0))
    pipe.entered.wait()
    for second in range(1, 6):
        printer.on(decision(float(second), replicas=second))
    assert caplog.messages == ["--decisions: their reader does not keep up: some are left out, all else goes on"]
    pipe.release.set()
