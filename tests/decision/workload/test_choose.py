"""Which recommendation counts: by table, and that order never matters by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.decision.workload.combine import choose, unknown
from elasticd.model.policy import Combine
from elasticd.model.workload import Recommendation

NOW = 1000.0


def says(replicas: int | None, priority: int = 0, expires: float | None = None, reason: str = "R") -> Recommendation:
    return Recommendation(replicas, reason, priority=priority, expires=expires)


ABSTAINS = Recommendation(None, "NoFloor", "nothing is in force", abstains=True)


@pytest.mark.parametrize(
    ("how", "opinions", "count"),
    [
        pytest.param("max", [], None, id="nobody says anything"),
        pytest.param("max", [says(3), says(5)], 5, id="the largest"),
        pytest.param("max", [says(3, priority=9), says(5)], 5, id="the largest whatever its priority"),
        pytest.param("max", [says(3), says(5, expires=NOW)], 3, id="not one that has just expired"),
        pytest.param("max", [says(3), says(5, expires=NOW + 0.1)], 5, id="one that is about to expire"),
        pytest.param("max", [says(None)], None, id="nobody knows"),
        pytest.param("max", [ABSTAINS, says(2)], 2, id="not one without an opinion"),
        pytest.param("max", [says(0)], 0, id="none at all"),
        pytest.param("priority", [says(3, 2), says(5, 1)], 3, id="the highest priority though it wants less"),
        pytest.param("priority", [says(3, 2), says(5, 2), says(9, 1)], 5, id="the largest of the highest priority"),
        pytest.param("priority", [says(3, 2, NOW - 1), says(5, 1)], 5, id="falls through what has expired"),
        pytest.param("priority", [says(None, 2), says(5, 1)], 5, id="falls through what does not know"),
        pytest.param("priority", [says(3, -1), says(2, -2)], 3, id="negative priorities"),
        pytest.param("mean", [says(4)], 4, id="mean of one"),
        pytest.param("mean", [says(3), says(6)], 5, id="half a pod is a pod"),
        pytest.param("mean", [says(2), says(4)], 3, id="mean of two"),
        pytest.param("mean", [says(2), says(4), says(9, expires=NOW)], 3, id="mean without the expired"),
        pytest.param("mean", [says(2), says(None)], 2, id="mean of those who know"),
    ],
)
def test_the_recommendation_that_counts(how: Combine, opinions: list[Recommendation], count: int | None) -> None:
    chosen = choose(how, opinions, NOW)
    assert (chosen.replicas if chosen else None) == count


def test_a_mean_says_of_what() -> None:
    chosen = choose("mean", [says(3), says(6)], NOW)
    assert chosen is not None
    assert (chosen.reason, chosen.message) == ("MeanOfStrategies", "the mean of 6 and 3")


@pytest.mark.parametrize(
    ("how", "opinions", "doubted"),
    [
        pytest.param("max", [says(3), says(None, reason="Blind")], "Blind", id="one that cannot know"),
        pytest.param("max", [says(3), says(None, expires=NOW)], None, id="one that has expired"),
        pytest.param("mean", [says(3), says(None, -5, reason="Blind")], "Blind", id="in a mean each counts"),
        pytest.param("priority", [says(3, 2), says(None, 1)], None, id="one that would not have been heard"),
        pytest.param("priority", [says(3, 1), says(None, 1, reason="Blind")], "Blind", id="one of equal rank"),
        pytest.param("priority", [says(3, 1), says(None, 2, reason="Blind")], "Blind", id="one fallen through"),
        pytest.param("priority", [says(None, -2, reason="Blind")], "Blind", id="where nobody knows"),
        pytest.param("max", [says(3), ABSTAINS], None, id="not one without an opinion"),
        pytest.param("max", [ABSTAINS, says(None, reason="Blind")], "Blind", id="one beside one without an opinion"),
        pytest.param("mean", [ABSTAINS], None, id="nobody where nobody has an opinion"),
    ],
)
def test_who_keeps_the_count_from_falling(how: Combine, opinions: list[Recommendation], doubted: str | None) -> None:
    found = unknown(how, opinions, choose(how, opinions, NOW), NOW)
    assert (found.reason if found else None) == doubted


OPINIONS = st.lists(
    st.builds(
        says,
        st.none() | st.integers(0, 9),
        st.integers(-2, 2),
        st.none() | st.sampled_from([NOW - 1, NOW, NOW + 1]),
        st.sampled_from(["R", "S"]),
    ),
    max_size=5,
)


@given(st.sampled_from(["max", "priority", "mean"]), OPINIONS, st.randoms(use_true_random=False))
def test_the_order_of_strategies_never_matters(how: Combine, opinions: list[Recommendation], random: object) -> None:
    shuffled = list(opinions)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    chosen, other = choose(how, opinions, NOW), choose(how, shuffled, NOW)
    assert told(chosen) == told(other)
    assert told(unknown(how, opinions, chosen, NOW)) == told(unknown(how, shuffled, other, NOW))


def told(one: Recommendation | None) -> tuple[int | None, str] | None:
    return None if one is None else (one.replicas, one.reason)


@given(st.sampled_from(["max", "priority", "mean"]), OPINIONS)
def test_combined_recommendation_stays_within_the_range_of_its_inputs(
    how: Combine, opinions: list[Recommendation]
) -> None:
    chosen, counts = choose(how, opinions, NOW), [one.replicas for one in opinions if one.replicas is not None]
    if chosen is not None:
        assert chosen.replicas is not None
        assert min(counts) <= chosen.replicas <= max(counts)
