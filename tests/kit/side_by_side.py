"""Prints how evenly nodes are used, and how many pods were evicted for that: with elasticd, without, and with
descheduler's LowNodeUtilization after its published rules. `python tests/kit/side_by_side.py`.

The pool is the one of tests.kit.uneven: 20 nodes, 200 pods that all request the same; the pods of a fifth of the
controllers use three to four times as much as the others, and stand on a fifth of the nodes. What is measured is 30 s
old. elasticd places what its policy moved; for LowNodeUtilization kube-scheduler's two scores by requests do, and once
load-balance. Same seed, same numbers.
"""

from collections.abc import Sequence

from msgspec import Struct

from elasticd.model.policy import Strategy
from elasticd_plugins.balanced_allocation import BalancedAllocation
from elasticd_plugins.filters import Filters
from elasticd_plugins.least_requested import LeastRequested
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.rebalance.options import Marks
from tests.kit.low_node_utilization import README, LowNodeUtilization
from tests.kit.uneven import EVERY, ByStrategies, Load, Mover, Uneven

MINUTES = (0, 10, 30, 60, 120, 240)
KUBE_SCHEDULER: tuple[Strategy, ...] = (Filters(), LeastRequested(), BalancedAllocation())
DEVIATION = tuple(Marks(name, 0.10, 0.05, 0.0) for name in ("cpu", "memory"))

LOADS = {
    "constant": Load(),
    "swings by 40 % within 10 min to 2 h": Load(swing=0.4),
    "spikes of 50 % within 1 to 12 min": Load(busy=1.0, idle=0.7, swing=0.5, period=60.0),
}


class Way(Struct, frozen=True):
    """Who moves pods, and who places them."""

    name: str
    mover: Mover
    placing: tuple[Strategy, ...]


def elasticd(name: str, strategy: Rebalance) -> Way:
    """A policy with the defaults of [moves]."""
    strategies = (Filters(), LoadBalance(), strategy)
    return Way(name, ByStrategies(strategies), strategies)


def ways() -> list[Way]:
    """All that are compared, each new: elasticd remembers."""
    fixed = LowNodeUtilization({"cpu": (30.0, 50.0)}, by="metrics")
    deviating = LowNodeUtilization({"cpu": (10.0, 10.0)}, by="metrics", deviation=True)
    return [
        Way("nobody", lambda _: (), KUBE_SCHEDULER),
        elasticd("elasticd, by score", Rebalance()),
        elasticd("elasticd, by deviation", Rebalance(by="deviation", marks=DEVIATION)),
        Way("LowNodeUtilization, requests, README's 20 and 50 %", LowNodeUtilization(README), KUBE_SCHEDULER),
        Way("LowNodeUtilization, metrics, cpu 30 and 50 %", fixed, KUBE_SCHEDULER),
        Way("LowNodeUtilization, metrics, cpu 10 % from the mean", deviating, KUBE_SCHEDULER),
        Way("the same, but placed by load-balance", deviating, (Filters(), LoadBalance())),
    ]


class Run(Struct, frozen=True):
    """How it went: spread and most loaded node in percent at each of MINUTES, and evictions in all and in the last
    hour."""

    spread: tuple[float, ...]
    worst: tuple[float, ...]
    evicted: int
    late: int


def run(way: Way, load: Load) -> Run:
    """Four hours."""
    pool, at = Uneven(way.placing, load=load), {round(60 * minute / EVERY) for minute in MINUTES}
    spread, worst, evicted = list[float](), list[float](), list[int]()
    for cycle in range(max(at) + 1):
        if cycle in at:
            spread.append(pool.spread())
            worst.append(pool.worst())
        evicted.append(pool.step(way.mover))
    return Run(tuple(spread), tuple(worst), sum(evicted[:-1]), sum(evicted[-1 - round(3600 / EVERY) : -1]))


def table(load: Load) -> Sequence[str]:
    """As Markdown."""
    minutes = " | ".join(f"{minute} min" for minute in MINUTES)
    lines = [f"| moved by | {minutes} | evictions | in the last hour |", f"|---|{'---|' * (len(MINUTES) + 2)}"]
    for way in ways():
        done = run(way, load)
        cells = " | ".join(f"{one:.1f} ({most:.0f})" for one, most in zip(done.spread, done.worst, strict=True))
        lines.append(f"| {way.name} | {cells} | {done.evicted} | {done.late} |")
    return lines


def main() -> None:
    """Print a table for each load."""
    print("Standard deviation of the nodes' cpu, and the most loaded node's, in percent of a node")
    for name, load in LOADS.items():
        print(f"\nLoad: {name}\n")
        print("\n".join(table(load)))


if __name__ == "__main__":
    main()
