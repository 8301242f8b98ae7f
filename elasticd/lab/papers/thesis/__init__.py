"""The thesis on user binding, preemption and load balancing: its tables of bound pods and of evicted ones.

Source: Tang Rui, master thesis, UESTC 2017, chapters 4 and 6.
"""

from collections.abc import Sequence
from itertools import product

from elasticd.lab.papers import Progress, Reproduction, paragraphs
from elasticd.lab.papers.thesis import binding, preempting
from elasticd.registry import discover


def reproduce(seeds: Sequence[int], progress: Progress) -> Reproduction:
    """Places the bound pods, preempts those of Table 6-11, and fills a node in each way with each seed."""
    registry = discover()
    keys = list(product(preempting.WAYS, seeds))
    filled = {}
    for done, key in enumerate(keys, 1):
        filled[key] = preempting.run(registry, key)
        progress(done, len(keys))
    return Reproduction(
        "thesis",
        "bind pods to nodes, preempt less important ones, and level nodes' loads",
        "Tang Rui, master thesis, UESTC 2017",
        SETUP,
        (*binding.claims(registry), *preempting.claims(registry, filled, seeds)),
        FINDINGS,
        UNKNOWN,
        (preempting.chart(filled, seeds[0]),),
    )


SETUP = paragraphs(
    """
Binding: node1, node2 and node3 have 1, 2 and 4 cores and twice as many GiB, all idle. pod1 is bound to node1, pod2 to
nodes whose tier is not backend, pod3 to node1 or node2 with tier frontend, pod4 and pod5 to node4, which does not
exist. Tiers are frontend, backend, frontend, then backend, frontend, backend.

Preemption: on node2 run pod1 to pod6, of which 1 and 4 have restartPolicy Never, 2 and 5 OnFailure, 3 and 6 Always;
the first three request 400m and 800Mi, the others 100m and 200Mi, and 200m and 500Mi are free. Figure 6-4: on node3,
which takes 150 pods of 10m and 50Mi, thirty more are requested at a time, ten of each class. Each seed shuffles them.

Nothing but the figure's batches is random.
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
"""
)
