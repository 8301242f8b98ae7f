"""The thesis on user binding, preemption and load balancing: its tables and figures.

Source: Tang Rui, master thesis, UESTC 2017, chapters 4 and 6.
"""

from collections.abc import Sequence
from itertools import product

from elasticd.lab.papers import Reproduction, Work, paragraphs, summed_up
from elasticd.lab.papers.thesis import binding, levelling, preempting, scheduling
from elasticd.registry import discover


def reproduce(seeds: Sequence[int], work: Work) -> Reproduction:
    """Places the bound pods, preempts those of Table 6-11, fills a node, levels three nodes, and places up to 1,600
    pods: the latter three in each way with each seed."""
    registry = discover()
    levels, schedules = list(product(levelling.WAYS, seeds)), list(scheduling.keys(seeds))
    later = len(levels) + len(schedules)
    filled = work.each(product(preempting.WAYS, seeds), lambda key: preempting.run(registry, key), then=later)
    levelled = work.each(levels, lambda key: levelling.run(registry, key), then=len(schedules))
    timed = work.each(schedules, lambda key: scheduling.run(registry, key))
    claims = (
        *binding.claims(registry),
        *preempting.claims(registry, filled, seeds),
        *levelling.claims(levelled, seeds),
        *scheduling.claims(timed, seeds, times=work.times),
    )
    return Reproduction(
        "thesis",
        "bind pods to nodes, preempt less important ones, and level nodes' loads",
        "Tang Rui, master thesis, UESTC 2017",
        SETUP,
        claims,
        FINDINGS,
        UNKNOWN,
        (
            preempting.chart(filled, seeds[0]),
            *levelling.charts(levelled, seeds),
            scheduling.chart(timed, seeds, times=work.times),
        ),
        "elasticd simulate config/scenarios/thesis/elasticd.toml --out-nodes nodes.csv",
        summed_up(claims, MAIN),
    )


MAIN = {
    "bound pods are where Tables 6-3 to 6-8 have them": ('binding, mode "paper"', ""),
    "evicted pods are those of Table 6-11": ('preemption, Table 6-11, mode "paper"', ""),
    "pods that run are those of Figure 6-4": ('preemption, Figure 6-4: pods that run on node3, mode "paper"', ""),
    "the scores of Table 6-12 follow from its ratios": ("levelling, Table 6-12", "score of"),
    "its ratios are of nodes of 1, 2 and 4 cores": (
        "levelling, Table 6-12",
        "sum of w / score over sum of w, cpu, coefficients 1:2:4",
    ),
    "stdScore is as the default scheduler's at odd records": (
        f"levelling, Figures 6-6 to 6-8: {levelling.PAPER}",
        "mean stdScore at records 3, 5, 7",
    ),
    "stdScore is clearly smaller at even records": (f"levelling, Figures 6-6 to 6-8: {levelling.PAPER}", "less than"),
    "scheduling takes as long for few pods, slightly longer for many, no jumps": ("scheduling", ""),
}


SETUP = paragraphs(
    """
Binding: node1, node2 and node3 have 1, 2 and 4 cores and twice as many GiB, all idle. pod1 is bound to node1, pod2 to
nodes whose tier is not backend, pod3 to node1 or node2 with tier frontend, pod4 and pod5 to node4, which does not
exist. Tiers are frontend, backend, frontend, then backend, frontend, backend.

Preemption: on node2 run pod1 to pod6, of which 1 and 4 have restartPolicy Never, 2 and 5 OnFailure, 3 and 6 Always;
the first three request 400m and 800Mi, the others 100m and 200Mi, and 200m and 500Mi are free. Figure 6-4: on node3,
which takes 150 pods of 10m and 50Mi, thirty more are requested at a time, ten of each class. Each seed shuffles them.

Levelling: on the same three nodes come fifteen pods every 5 minutes, five of each class, sixty in all. Between two
batches each uses cpu by chance, 60m on average (exponential), and next to none around a batch; it always uses 96Mi.
Loads are measured every 30 s. Odd records are 10 s after a batch, even ones 4 min 40 s. The default scheduler is
least-requested and balanced-allocation. "The thesis" is `static` and `rebalance` in mode "paper", which stops at the
threshold, or at the mean. "static with rebalance" is mode "product" of both, "static alone" without moves.

Scheduling: 70 nodes of 4 cores, which use 10 to 50 % of themselves, and 100 to 1,600 pods that are planned at once.

Random are the figures' batches, the loads of pods, and those of the 70 nodes. The time that scheduling takes differs
from run to run. So it is measured only with `--times`; without, what is printed is the same each time.
"""
)
FINDINGS = paragraphs(
    """
Binding comes out as in the thesis, in both modes. pod2 goes to node3 only because the largest of several idle nodes is
preferred: the score of the thesis is the same for all nodes without load.

Table 6-11 comes out in mode "paper". Mode "product" evicts one pod fewer for alwaysPod2, as pod4's 200Mi are not needed
once pod1 and pod2 have gone.

Figure 6-4 comes out with every order within the batches.

The steps of section 4.3.3 evict while they search, and find only then that it is not enough. Table 6-11 has nobody
evicted where it is not enough, so elasticd looks first, in both modes.

Table 6-12 has the scores that follow from its ratios. But by eq. (5-8) these ratios cannot be of nodes of 1, 2 and 4
cores: they fit coefficients of 4, 2 and 1, so the thesis seems to have applied them in reverse order.

That the default scheduler's loads are apart at even records, and close at odd ones, comes out, since pods have next to
no load at odd ones here.

That the thesis's are as close at odd records does not come out. In mode "paper" all of a batch goes to the node that
was the least loaded when last measured, and odd records are taken before it can move. At even records it is clearly
closer than the default scheduler with some seeds only: each batch must be spread again by moves, 24 to 73 of them.

`static` with `rebalance`, as elasticd has them by default, is as close as the default scheduler at odd records and
about half as far apart at even ones, with 2 to 10 moves: pods that are not measured yet count by an estimate. `static`
alone does not help at even records, as load comes after pods are placed.

For scheduling, the thesis compares fewer nodes for each pod, as `static` refuses those above the mean, but computes
their load anew for each. With `--times`, that is measured.
"""
)
UNKNOWN = paragraphs(
    """
How much of a node the system takes. Here so much that node2 has free what Table 6-11 needs, and node3 has room for 150
pods.

The values of Figure 6-4. The thesis prints none, so those here follow from its rules for 150 pods: as many Always as
there is room for, then OnFailure, then Never.

On which node preemption begins if several match; each experiment has one.

What a pod does that leaves these fields out. elasticd's defaults are to stay when labels change, and to wait.

The values of Figures 6-6 to 6-9, what the pods request and use, and how webbench's connections are distributed. Here
loads are exponential, and off around each batch, or the default scheduler would not be close at odd records.

The thresholds of scores, and how much a node releases, as its figure is lost. Here the thresholds are elasticd's, -1
and 0.5, and both readings of the amount are measured.

Whether pods of a batch come at once, as here, or one after the other, between measurements.

What the master runs. Here it is left out. And how long the thesis's program took: no figure of 6-9 can be read.
"""
)
