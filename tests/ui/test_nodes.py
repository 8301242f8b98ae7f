"""What `nodes` prints of all pools, and of one node."""

import re
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from elasticd.model.moves import NodeLevel
from elasticd.model.reports import HeapPod, Moving, NextMove, NodeReport, NodeView, PoolReport
from elasticd.model.workload import Failure
from elasticd.ui import nodes as show_nodes
from tests.kit.pools import GIB, MIB, NOW
from tests.runtime.pools.test_next_moves import came, decided, going

A = NodeReport(
    "pool",
    "ip-10-0-12-31",
    "ready",
    12,
    110,
    {"cpu": 8.0, "memory": 32 * GIB},
    {"cpu": 2.0, "memory": 16 * GIB},
    {"cpu": 7.2},
    -2.5,
    NodeLevel("ip-10-0-12-31", "gives", ("cpu",), "cpu 90%, the pool 50%: calm again at cpu 55%"),
)
B = replace(A, node="b", state="cordoned, 1 taint", score=None, level=NodeLevel("b", "takes", ("cpu", "memory")))
YOUNG = "it has run for less than min_run = 60 s"
HEAP = (
    HeapPod("shop", "big", "Never", 0, {"memory": 512 * MIB}, {"cpu": 0.25, "memory": 300 * MIB}, turn=1),
    HeapPod(
        "shop",
        "held",
        "Never",
        5,
        {"memory": 64 * MIB},
        {},
        "Budget",
        "a PodDisruptionBudget forbids it",
        spared="Young",
        spared_why=YOUNG,
    ),
)


def printed(*found: Any, width: int = 200) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(show_nodes.shown(found, NOW + 12))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_pool_is_its_nodes_and_where_they_stand() -> None:
    assert printed(PoolReport("pool", "act", (A, B))) == (
        "pool pool (act)\n"
        "                                          cpu    cpu   memory  memory\n"
        "node           state              pods    asked  used  asked   used     moves\n"
        "ip-10-0-12-31  ready              12/110  25 %   90 %  50 %    unknown  gives cpu\n"
        "b              cordoned, 1 taint  12/110  25 %   90 %  50 %    unknown  takes cpu, memory"
    )


def test_what_is_not_current_is_said_once_and_first() -> None:
    line = "Node: not current since 2026-11-28 14:42:04 UTC: 500 InternalError: x"
    pools = [PoolReport(name, "act", (A,), stale=(line,)) for name in ("one", "two")]
    text = printed(*pools)
    assert text.splitlines()[:2] == [line, "pool one (act)"]
    assert text.count(line) == 1
    assert printed(NodeView("act", A, stale=(line,))).splitlines()[0] == line


def test_where_nobody_says_how_nodes_stand_they_have_their_score() -> None:
    text = printed(PoolReport("pool", "observe", tuple(replace(one, level=None) for one in (A, B))))
    assert [row[-1] for row in rows(text)[2:]] == ["score", "-2.50", "-"]
    assert text.startswith("pool pool (observe)\n")


def test_a_node_that_came_since_the_look_stands_nowhere_yet() -> None:
    assert rows(printed(PoolReport("pool", "act", (A, replace(B, level=None)))))[-1][-1] == "-"


def test_a_pool_without_nodes_says_so() -> None:
    assert printed(PoolReport("pool", "act", ())).splitlines()[1:] == ["no node has the labels that it asks for"]


def test_pools_stand_one_below_the_other() -> None:
    text = printed(PoolReport("one", "act", (A,)), PoolReport("two", "act", (B,)))
    assert text.count("\n\npool two (act)\n") == 1


MOVES = Moving(
    NOW,
    NOW + 30,
    "2 pods move; 1 more should, and stays: Budget",
    (
        NextMove(decided("p"), came("p", "done", message="dry run: not sent")),
        NextMove(decided("q", how="kill", target="")),
        NextMove(decided("r", "Budget")),
    ),
)


def test_next_moves_have_a_row_each_and_reasons_appear_once() -> None:
    text = printed(PoolReport("pool", "act", (A,), MOVES))
    assert text.partition("\n\n")[2] == (
        "Next  looked 12 s ago, looks again in 18 s\n"
        "2 pods move; 1 more should, and stays: Budget\n"
        "pod     from  to      why\n"
        "shop/p  a     b       Overloaded (says); dry run: not sent\n"
        "shop/q  a     (ends)  Overloaded (says)\n"
        "shop/r  a     stays   Budget\n"
        "Overloaded (says): because of load\n"
        "Budget: because of Budget"
    )


def test_a_released_pod_is_shown_as_waiting() -> None:
    released = replace(MOVES, moves=(NextMove(decided("q", how="release", target="")),))
    text = printed(PoolReport("pool", "act", (A,), released))
    assert "\nshop/q  a     (waits)  Overloaded (says)\n" in text


def test_many_moves_are_cut_and_the_rest_counted() -> None:
    many = tuple(NextMove(decided(f"p{index}", "Budget" if index > 25 else "")) for index in range(40))
    lines = printed(PoolReport("pool", "act", (A,), replace(MOVES, moves=many))).splitlines()
    assert sum(line.startswith("shop/") for line in lines) == show_nodes.MOST == 20
    assert lines[-1] == "and 20 more: 14 Budget, 6 moving; --json has them all"


@pytest.mark.parametrize(
    ("found", "line"),
    [
        pytest.param(Moving(0.0, 0.0, "not looked at yet"), "Next", id="not yet"),
        pytest.param(Moving(0.0, NOW + 15, "not yet"), "Next  looks again in 3.0 s", id="due"),
        pytest.param(Moving(NOW, NOW, "late"), "Next  looked 12 s ago, looks again in 0.0 s", id="late"),
    ],
)
def test_a_report_shows_when_the_pool_was_examined(found: Moving, line: str) -> None:
    assert line in printed(PoolReport("pool", "act", (A,), found)).splitlines()


def test_a_plugin_that_failed_is_named() -> None:
    failed = replace(MOVES, failures=(Failure("says", "explain_nodes", "raised ValueError: no"),))
    assert "plugin says: explain_nodes raised ValueError: no" in printed(PoolReport("pool", "act", (A,), failed))


VIEW = NodeView(
    "act",
    A,
    never=HEAP,
    always=(HeapPod("shop", "web", "Always", 0, {}, {}, "Budget", "a PodDisruptionBudget forbids it", turn=2),),
    rooted=(HeapPod("kube-system", "proxy", "Always", 0, {}, {}, "DaemonSet", "its DaemonSet wants it on this node"),),
    taints=("gpu=yes:NoSchedule",),
    labels={"zone": "a"},
    moving=MOVES,
    leaving=(HeapPod("shop", "old", "Always", stays="Replaced", why="another is made first, and awaited: up"),),
    yields=True,
    rule="for those of higher priority",
)


def test_a_node_is_its_load_its_heaps_and_its_moves() -> None:
    assert printed(VIEW).partition("\n\nNext in its pool")[0] == (
        "ip-10-0-12-31  pool pool (act), ready, 12 of 110 pods\n"
        "gives cpu: cpu 90%, the pool 50%: calm again at cpu 55%\n"
        "        has      asked          used\n"
        "cpu     8        2        25 %  7200m    90 %\n"
        "memory  32768Mi  16384Mi  50 %  unknown\n"
        "taint gpu=yes:NoSchedule\n"
        "label zone=a\n"
        "\n"
        "Pods are preempted for those of higher priority\n"
        "\n"
        "Of restartPolicy Never\n"
        "                     memory  cpu      memory   victim  moved\n"
        "pod        priority  asked   used     used     no.     now?\n"
        "shop/big   0         512Mi   250m     300Mi    1       may be\n"
        "shop/held  5         64Mi    unknown  unknown  Young   Budget\n"
        "\n"
        "Of restartPolicy OnFailure, nobody\n"
        "\n"
        "Of restartPolicy Always\n"
        "                    memory  cpu      memory   victim  moved\n"
        "pod       priority  asked   used     used     no.     now?\n"
        "shop/web  0         0Mi     unknown  unknown  2       Budget\n"
        "\n"
        "Young: it has run for less than min_run = 60 s\n"
        "Budget: a PodDisruptionBudget forbids it\n"
        "\n"
        "On their way\n"
        "pod       why\n"
        "shop/old  Replaced: another is made first, and awaited: up\n"
        "\n"
        "Never preempted or moved\n"
        "pod                why\n"
        "kube-system/proxy  DaemonSet: its DaemonSet wants it on this node"
    )


def test_a_node_without_moving_strategies_shows_no_next_moves() -> None:
    text = printed(NodeView("act", replace(A, level=None)))
    assert "Next" not in text
    assert text.count(", nobody") == 3
    assert "No pod is preempted in this pool, nor is anybody moved: none of its strategies makes pods leave" in text


@pytest.mark.parametrize(
    ("more", "columns", "cells"),
    [
        pytest.param({"moving": None}, ["used", "no."], ["1", "Young"], id="pods are preempted and are not moved"),
        pytest.param({"yields": False}, ["used", "now?"], ["be", "Budget"], id="pods are moved and are not preempted"),
        pytest.param({"yields": False, "moving": None}, ["used", "used"], ["300Mi", "unknown"], id="neither"),
    ],
)
def test_rules_not_in_force_in_a_pool_are_not_shown(more: dict[str, Any], columns: list[str], cells: list[str]) -> None:
    text = printed(replace(VIEW, **more))
    (head, first, second) = [row for row in rows(text) if row[:1] in (["pod"], ["shop/big"], ["shop/held"])][:3]
    assert (head[-2:], [first[-1], second[-1]]) == (columns, cells)
    assert ("Young: " in text) == more.get("yields", True)
    assert ("No pod is preempted in this pool" in text) != more.get("yields", True)


def test_a_pod_is_shown_as_unknown_when_explain_victims_fails() -> None:
    text = printed(
        replace(VIEW, never=(replace(HEAP[0], turn=0),), failures=(Failure("says", "explain_victims", "no"),))
    )
    assert next(row for row in rows(text) if row[:1] == ["shop/big"])[-3:] == ["unknown", "may", "be"]
    assert "plugin says: explain_victims no" in text


@pytest.mark.parametrize(
    ("move", "row"),
    [
        pytest.param(
            NextMove(decided("p", "Leaving"), underway=going("p")),
            "shop/p  a     on the way  Overloaded (says); another is made first: wait: 1 of 2 are ready without p",
            id="another is awaited",
        ),
        pytest.param(
            NextMove(decided("p"), came("p", "done"), going("p", "evicted")),
            "shop/p  a     b   Overloaded (says); evicted: leaving",
            id="it takes its time to end",
        ),
        pytest.param(
            NextMove(decided("p", "Leaving"), underway=going("p", ends=True)),
            "shop/p  a     on the way  Overloaded (says); another was made first: wait: 1 of 2 are ready without p",
            id="and another was made first",
        ),
        pytest.param(
            NextMove(decided("p", "Leaving")),
            "shop/p  a     on the way  Overloaded (says); it is leaving",
            id="somebody else deletes it",
        ),
    ],
)
def test_the_progress_of_moves_under_way_is_shown(move: NextMove, row: str) -> None:
    lines = printed(PoolReport("pool", "act", (A,), replace(MOVES, moves=(move,)))).splitlines()
    assert row in lines
    assert ("Overloaded (says): because of load" in lines) == (move.decision.verdict == "move")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "found", [pytest.param(PoolReport("p", "act", (A, B), MOVES), id="pool"), pytest.param(VIEW, id="node")]
)
def test_in_a_narrow_terminal_nothing_is_cut_off(found: Any, width: int) -> None:
    text = printed(found, width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    whole = re.sub(r"\s", "", printed(found))
    assert len(re.sub(r"\s", "", text)) == len(whole)


@pytest.mark.parametrize("width", [80, 120])
def test_the_numbers_of_nodes_with_long_names_are_never_wrapped(width: int) -> None:
    long = replace(A, node="ip-10-0-12-31.eu-central-1.compute.internal", state="ready, 2 taints")
    lines = printed(PoolReport("p", "act", (long,)), width=width).splitlines()
    assert any("12/110  25 %   90 %  50 %    unknown" in line for line in lines)


def test_what_strangers_named_cannot_reach_the_terminal() -> None:
    evil = "a\x1b[31m\nb"
    pod = replace(HEAP[0], name=evil, stays=evil, why=evil, turn=0, spared=evil, spared_why=evil)
    level = NodeLevel(evil, "gives", (evil,), evil)
    moves = replace(MOVES, summary=evil, moves=(NextMove(replace(decided("p"), message=evil, target=evil)),))
    shown = printed(
        PoolReport(evil, "act", (replace(A, node=evil, state=evil, level=level),), moves),
        NodeView(
            "act",
            replace(A, node=evil, level=level),
            never=(pod,),
            taints=(evil,),
            labels={evil: evil},
            moving=moves,
            leaving=(pod,),
            yields=True,
            rule=evil,
        ),
    )
    assert "\x1b" not in shown
    assert not [line for line in shown.splitlines() if line.startswith("b")]
