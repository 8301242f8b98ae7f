"""Which node is the best, of those where a pod may go."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elasticd.decision.pool.filter_score import Scored
from tests.kit.pools import columns, node, pod

SCORES = st.sampled_from([0.0, 1.0, 2.0, np.nextafter(1.0, 2.0), -1.0, float("nan")])


@given(st.lists(st.tuples(SCORES, st.booleans(), st.sampled_from([1.0, 2.0]), st.booleans()), min_size=1, max_size=12))
def test_the_first_is_the_best_of_the_best(nodes: list[tuple[float, bool, float, bool]]) -> None:
    """By score, then by the room left, then by name: of any number of nodes, with scores that are not known too."""
    records = [node(f"n{place:02d}", cpu=cpu) for place, (_, _, cpu, _) in enumerate(nodes)]
    pods = [pod(one.name, 0.5, on=one.name) for one, (*_, full) in zip(records, nodes, strict=True) if full]
    view, total = columns(records, pods), np.array([score for score, *_ in nodes])
    allowed = np.array([may for _, may, *_ in nodes])
    if allowed.any():
        ranked = Scored(total, {})
        assert ranked.first(allowed, view) == ranked.best(allowed, view)[0]
