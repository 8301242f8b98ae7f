"""How fast and how far a policy's bounds change a count by themselves.

A min or max may be a mistake, and unlike a recommendation it has no measured load behind it. Pure.
"""

from functools import lru_cache

from elasticd.decision.workload.asking import Case
from elasticd.kit.windows import Rate, Rates, restrain
from elasticd.model.disruption import PolicyCaps
from elasticd.model.workload import Limit

PACED, UNCONFIRMED = "BoundsPaced", "Unconfirmed"


def ramp_limit(case: Case, final: int) -> Limit | None:
    """The limit on the way to a bound (`final`) that ends short of it now; None: the count may go there at once."""
    caps, bounds, past = case.caps, case.policy.replicas, case.past
    current = case.observation.workload.replicas
    if caps is None or final == bounds.confirmed:
        return None
    start = current if past.bounds_from is None else past.bounds_from
    lowest, highest = min(current, start - caps.most), max(current, start + caps.most)
    far = Limit(UNCONFIRMED, _explain_distance(caps, start, final), lowest, highest, name="ramp", bound=True)
    paced = restrain(final, case.observation, past, *_rates(caps)) or far
    nearest = min((far, paced), key=lambda limit: abs(limit.clamp(final) - current))
    if nearest.clamp(final) == final:
        return None
    if nearest is far:
        return far
    also = f"; {far.message}" if far.clamp(final) != final else ""
    message = f"{paced.message} (bounds_step of [disruption]){also}"
    return Limit(PACED, message, paced.lowest, paced.highest, name="ramp", bound=True)


def _explain_distance(caps: PolicyCaps, start: int, final: int) -> str:
    bound, more = ("max", "fewer") if final < start else ("min", "more")
    most = f"a {bound} of {abs(final - start)} {more} than there were ({start}) changes {caps.most} replicas at most"
    return f"{most} (bounds_most of [disruption]) until confirmed = {final} stands under [replicas]"


@lru_cache(maxsize=16)
def _rates(caps: PolicyCaps) -> tuple[Rates, Rates]:
    """At most `step` pods in one period, or twice, or half the count."""
    period = max(1, round(caps.within))
    steps = Rate("Pods", caps.step, period)
    return Rates((steps, Rate("Percent", 100, period))), Rates((steps, Rate("Percent", 50, period)))
