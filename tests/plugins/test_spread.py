"""Spread: shares of ordered subsets, which pods go first, and what is told of how they lie."""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace
from rich.console import Console

from elasticd.api import Node, Observation, Pod, Room
from elasticd.testing import check_strategy
from elasticd.ui.decisions import explain
from elasticd_plugins import spread
from elasticd_plugins.spread import Spread, shares_of
from elasticd_plugins.victims import Victims
from tests.kit.plugins.builders import NOW, OLD, Wants, decode, judge, refusal, seen, series, use
from tests.kit.plugins.builders import pod as built


def of(*maxima: int | str | None, patience: float = 60) -> Spread:
    """Subsets a, b and so on, of the nodes with these pools."""
    subsets = [
        {"name": name, "labels": {"pool": name}} | ({} if most is None else {"max": most})
        for name, most in zip("abcd", maxima, strict=False)
    ]
    return decode(Spread, subsets=subsets, patience=patience)


def node(pool: str) -> Room:
    return Room(Node(f"node-{pool}", pool, True, labels={"pool": pool, "zone": "z"}), {"cpu": 8.0, "pods": 99})


ROOMS = tuple(map(node, "abcdx"))


def pods(pools: str, **changes: Any) -> list[Pod]:
    """A pod on the node of each pool, of which an upper-case letter is not ready, "-" no node and "?" one that nobody
    knows; the first began last. They are called by their place: 0, 1 and so on."""
    return [
        built(
            str(place),
            node="" if pool == "-" else f"node-{pool.lower()}",
            phase="Pending" if pool == "-" else "Running",
            ready=pool.islower() or pool == "?",
            started=OLD - place,
            **changes,
        )
        for place, pool in enumerate(pools)
    ]


def shown(pools: str, *, rooms: tuple[Room, ...] | None = ROOMS, **changes: Any) -> Observation:
    return replace(seen(len(pools), pods(pools, **changes)), rooms=rooms)


def gone(strategy: Spread, pools: str, to: int, *others: Any) -> str:
    """The places of the pods that are marked when the count falls, in their order."""
    decision = judge(Wants(replicas=to), strategy, *others, seen=shown(pools))
    assert (decision.verdict, decision.replicas) == ("scale", to)
    return "".join(mark.pod for mark in decision.marks)


@pytest.mark.parametrize(
    ("maxima", "shares"),
    [
        pytest.param((4, None), {0: (0, 0), 3: (3, 0), 4: (4, 0), 7: (4, 3)}, id="a fixed part and an elastic one"),
        pytest.param(("50%", None), {1: (1, 0), 3: (2, 1), 8: (4, 4)}, id="a percentage, rounded up"),
        pytest.param((2, "50%", None), {2: (2, 0, 0), 5: (2, 3, 0), 8: (2, 4, 2)}, id="of the count, not of the rest"),
        pytest.param(("50%", "50%", None), {3: (2, 1, 0), 4: (2, 2, 0)}, id="rounding never makes more than there are"),
        pytest.param(("29%", None), {100: (29, 71)}, id="exactly"),
    ],
)
def test_the_shares(maxima: Sequence[Any], shares: dict[int, tuple[int, ...]]) -> None:
    assert {count: shares_of(of(*maxima).subsets, count) for count in shares} == shares


@given(
    some.lists(some.one_of(some.integers(1, 9), some.integers(1, 33).map("{}%".format)), min_size=1, max_size=3),
    some.integers(0, 200),
)
def test_the_shares_always_come_to_the_count(maxima: list[int | str], replicas: int) -> None:
    shares = shares_of(of(*maxima, None).subsets, replicas)
    assert sum(shares) == replicas
    assert min(shares) >= 0


@pytest.mark.parametrize(
    ("strategy", "pools", "to", "places"),
    [
        pytest.param(of(2, None), "aabbb", 4, "2", id="the elastic part first"),
        pytest.param(of(2, None), "babab", 2, "024", id="all of it"),
        pytest.param(of(2, None), "aabbb", 1, "2340", id="then the fixed one"),
        pytest.param(
            of(2, None), "aaab", 3, "0", id="what is beyond the fixed part goes before what is within the other"
        ),
        pytest.param(of(2, None), "aaab", 2, "30", id="of both: the elastic share is none now"),
        pytest.param(of(2, None), "aaxbb", 4, "2", id="nodes of no subset before all"),
        pytest.param(of(2, None), "xaaxb", 1, "0341", id="all of those, in order of name where nothing else tells"),
        pytest.param(of(2, None), "aA-bb", 4, "2", id="one without a node goes anyway"),
        pytest.param(of(2, None), "aA-bb", 3, "21", id="then one that is not ready, whose cost nobody heeds"),
        pytest.param(of(2, None), "aaABb", 3, "32", id="of those the later subset's first"),
        pytest.param(of(2, None), "aa?b", 3, "3", id="one on a node that is not known stays"),
        pytest.param(of(2, None), "??", 1, "0", id="but the count is obeyed"),
        pytest.param(of("50%", None), "aaabbb", 4, "30", id="of both in their parts, the younger first"),
        pytest.param(of("50%", None), "aaabbb", 5, "3", id="rounded up for the first"),
        pytest.param(of(1, 1, None), "abbccc", 3, "345"[:2] + "1", id="three subsets"),
        pytest.param(of(4, None), "abb", 2, "1", id="a fixed part that is short loses none"),
        pytest.param(of(2, None), "a", 0, "0", id="one pod, and none left"),
    ],
)
def test_the_pods_that_go(strategy: Spread, pools: str, to: int, places: str) -> None:
    decision = judge(Wants(replicas=to), strategy, seen=shown(pools), bounds=(0, 100))
    assert "".join(mark.pod for mark in decision.marks) == places


@given(
    some.lists(some.sampled_from("abcx"), max_size=12).map("".join),
    some.integers(0, 12),
    some.sampled_from([of(2, None), of("50%", None), of(1, "40%", None), of("20%", "30%", None)]),
)
def test_subsets_keep_their_share_while_another_exceeds_its_own(pools: str, to: int, strategy: Spread) -> None:
    ranks = strategy.rank_pods(shown(pools), to)
    assert ranks is not None
    going = max(0, len(pools) - to)
    left = sorted(range(len(pools)), key=lambda place: (ranks[str(place)].value, place))[going:]
    kept = [sum(1 for place in left if pools[place] == name) for name in "abc"[: len(strategy.subsets)]]
    before = [pools.count(name) for name in "abc"[: len(strategy.subsets)]]
    shares = shares_of(strategy.subsets, min(to, len(pools)))
    if going:
        over = [index for index, share in enumerate(shares) if kept[index] > share]
        short = [index for index, share in enumerate(shares) if kept[index] < min(share, before[index])]
        assert not (over and short)
        outside = len(pools) - sum(before)
        assert len(left) == sum(kept) or going < outside


def test_who_ranks_next_chooses_within_the_subset_that_shrinks() -> None:
    """The elastic part goes from four pods to two: which of them is left to the pods' own load."""
    idle = decode(Victims, load=0, age=1, ages="oldest", node=0, priority=-1)
    assert gone(of(2, None), "aabbbb", 4, idle) == "54"
    assert gone(of(2, None), "aabbbb", 4) == "23"


def test_every_mark_says_why() -> None:
    decision = judge(Wants(replicas=2), of(2, None), seen=shown("aabx"))
    assert [mark.reason for mark in decision.marks] == [
        "goes as number 1: spread -3 (in no subset)",
        "goes as number 2: spread -2 (b has 1, its share is 0)",
    ]


PAGE = Path(__file__).parents[2] / "docs" / "victims.md"


def test_explain_shows_why_each_pod_goes_as_documented() -> None:
    subsets = [{"name": "base", "labels": {"pool": "a"}, "max": 2}, {"name": "elastic"}]
    first, then = decode(Spread, subsets=subsets, priority=1), decode(Victims, node=0)
    used = [replace(one, pod=one.pod[1:]) for one in use(0.6, 0.7, 0.5, 0.03, 0.4, 0.2)]
    observation = shown("aabbbb")
    decision = judge(Wants(replicas=4), first, then, seen=replace(observation, series={"cpu": series(used)}))
    said = StringIO()
    Console(file=said, width=1000).print(explain(decision, None, NOW))
    (line,) = [line for line in said.getvalue().splitlines() if line.startswith("Action")]
    told = line.partition(": no answer")[0]
    assert " ".join(told.split()) in " ".join(PAGE.read_text().split())


WAITS = NOW - 61
UNMADE = replace(seen(3), rooms=ROOMS)


@pytest.mark.parametrize(
    ("strategy", "observation", "reason", "message", "highest"),
    [
        pytest.param(of(2, None), shown("aab"), "SubsetsFilled", "a 2 of 2, b 1 of 1", None, id="as it should be"),
        pytest.param(of(2, None), shown("aAb"), "SubsetsFilled", "a 2 of 2, b 1 of 1", None, id="not ready, but there"),
        pytest.param(of(3, None), shown("abb"), "SubsetsOverflow", "a 1 of 3, b 2 of 0", None, id="overflow"),
        pytest.param(of(3, None), shown("ab-"), "SubsetsOverflow", "a 1 of 3, b 1 of 0", None, id="while one waits"),
        pytest.param(of(1, None), shown("aab"), "SubsetsFilled", "a 2 of 1, b 1 of 2", None, id="one too many"),
        pytest.param(of(2, None), shown("a-"), "SubsetsFilled", "a 1 of 2, b 0 of 0", None, id="one is on its way"),
        pytest.param(
            of(2, None), shown("aax"), "SubsetsOverflow", "a 2 of 2, b 0 of 1, elsewhere 1", None, id="no subset"
        ),
        pytest.param(
            of(2, None), shown("aX?"), "SubsetsOverflow", "a 1 of 2, b 0 of 1, elsewhere 1, unknown 1", None, id="both"
        ),
        pytest.param(of(2, None), shown("aab", deleted=True), "SubsetsFilled", "a 0 of 2, b 0 of 1", None, id="all go"),
        pytest.param(of(2, None), UNMADE, "SubsetsFilled", "a 0 of 2, b 0 of 1", None, id="no pods"),
        pytest.param(
            of(2, None), shown("aab", rooms=()), "SubsetsUnknown", "no nodes are known, so that it does not limit",
            None,
            id="no nodes"
        ),
        pytest.param(
            of(2, None), shown("ab-", waits=WAITS), "NoRoomInSubsets",
            "no node for 1 pods for more than 60 s; a 1 of 2, b 1 of 1", 3, id="one waits for too long"
        ),
        pytest.param(
            of(2, None), shown("ab-", waits=NOW - 60), "SubsetsFilled", "a 1 of 2, b 1 of 1", None, id="not too long"
        ),
        pytest.param(
            of(2, None), shown("ab-", waits=WAITS, deleted=True), "SubsetsFilled", "a 0 of 2, b 0 of 1", None,
            id="one that goes waits for nothing"
        ),
    ],
)  # fmt: skip
def test_what_is_reported_and_when_growth_stops(
    strategy: Spread, observation: Observation, reason: str, message: str, highest: int | None
) -> None:
    decision = judge(Wants(replicas=9), strategy, seen=observation)
    (limit,) = [one for one in decision.limits if one.name == "spread"]
    assert (limit.reason, limit.message, limit.highest, limit.lowest) == (reason, message, highest, None)
    assert decision.replicas == (9 if highest is None else highest)


def test_pods_that_wait_stop_no_scale_in() -> None:
    assert judge(Wants(replicas=1), of(2, None), seen=shown("ab-", waits=WAITS)).replicas == 1


@pytest.mark.parametrize("rooms", [None, ()])
def test_without_nodes_spread_ranks_no_pod_and_scale_in_proceeds(rooms: tuple[Room, ...] | None) -> None:
    decision = judge(Wants(replicas=2), of(2, None), seen=shown("aab", rooms=rooms))
    assert (decision.replicas, decision.marks) == (2, ())


def most(value: int | str) -> str:
    """The first subset with this max."""
    return A.replace("2", str(value) if isinstance(value, int) else f'"{value}"')


HEAD = 'type = "spread"\n'
A, B = '{ name = "a", labels = { pool = "a" }, max = 2 }', '{ name = "b", labels = { pool = "b" } }'


@pytest.mark.parametrize(
    ("table", "line"),
    [
        pytest.param("", ".subsets: must be given, is missing", id="none"),
        pytest.param(
            f"subsets = [{B}]",
            f".subsets: must have at least 2 entries, is {[{'labels': {'pool': 'b'}, 'name': 'b'}]}",
            id="one",
        ),
        pytest.param(
            f"subsets = [{A}, {A}]", ".subsets[1].name: must be given once, is 'a' again", id="the-same-name-twice"
        ),
        pytest.param(
            f'subsets = [{A}, {{ name = "c", labels = {{ pool = "a", zone = "z" }} }}]',
            ".subsets[1].labels: must not be part of subset a, is {'pool': 'a', 'zone': 'z'}",
            id="never-reached",
        ),
        pytest.param(
            f'subsets = [{{ name = "all", max = 2 }}, {B}]',
            ".subsets[1].labels: must not be part of subset all, is {'pool': 'b'}",
            id="all-that-are-left-but-not-last",
        ),
        pytest.param(f"subsets = [{B}, {A}]", ".subsets[0].max: must be given, is missing", id="no-max"),
        pytest.param(
            f"subsets = [{A}, {B[:-2]}, max = 7 }}]",
            ".subsets[1].max: must be left out of the last subset, is 7",
            id="a-max-on-the-last",
        ),
        pytest.param(f"subsets = [{most(0)}, {B}]", ".subsets[0].max: must be >= 1, is 0", id="none-at-all"),
        *[
            pytest.param(
                f"subsets = [{most(given)}, {B}]",
                f'.subsets[0].max: must be a number of pods or from "1%" to "100%", is "{given}"',
                id=name,
            )
            for name, given in (("0-percent", "0%"), ("101-percent", "101%"), ("a-word", "half"))
        ],
        pytest.param(
            f'subsets = [{most("60%")}, {{ name = "c", labels = {{ pool = "c" }}, max = "50%" }}, {B}]',
            ".subsets: must have at most 100 % together, have 110 %",
            id="more-than-the-whole",
        ),
        pytest.param(f"subsets = [{A}, {B}]\npatience = 0", ".patience: must be > 0, is 0", id="patience"),
    ],
)
def test_every_option_is_refused_in_one_line(tmp_path: Path, table: str, line: str) -> None:
    assert refusal(tmp_path, spread, HEAD + table) == f"strategy[0]{line}"


def test_the_strategy_does_what_strategies_may() -> None:
    assert check_strategy(of(2, None)) == []
