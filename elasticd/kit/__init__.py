"""What strategies and limits share, bundled or of a third party: windows, calendars, bindings, node scores and units.

Plugins write `from elasticd.kit import Rates`: the modules also hold what only the daemon uses. Pure.
"""

from elasticd.base.backoff import Backoff
from elasticd.base.memo import Memo
from elasticd.base.units import format_amount, format_milli, milli, parse_quantity
from elasticd.kit.bands import band_around
from elasticd.kit.bindings import BINDING, OWN_BINDING, Binding, BindingRule, LabelRule, binding_of, bindings_of
from elasticd.kit.calendars import Hours, HoursNow, Instant, Spell, standing, steady
from elasticd.kit.evictability import CRITICAL, SPARE, has_run_for, rooted, sparing_annotation, stationary
from elasticd.kit.history import point_of, timeline
from elasticd.kit.load_score import LEAST_USE, average_score, balance_score, idleness, load_score, std_score, swiftness
from elasticd.kit.mounts import (
    Blocked,
    Match,
    Mounts,
    beyond_limits,
    exclusive,
    going_claim,
    in_use,
    in_use_outside,
    knows_volumes,
    local_claim,
    match_claims,
    mounts_of,
    stranded,
    surplus,
    uses,
    within_reach,
    within_zones,
)
from elasticd.kit.node_scores import Loaded, LoadScored, PartScored, Seen, Weight, capacity
from elasticd.kit.node_selection import ByNeeds, any_of, every_node, matching, selected, tolerated, with_label
from elasticd.kit.node_table import LARGEST, estimated, needed, weighed, whole
from elasticd.kit.requests import Serving, request_of, serving, unfit
from elasticd.kit.rollout import rollout_left
from elasticd.kit.surge import harmless_count
from elasticd.kit.topology import (
    HOSTNAME,
    CountingNodes,
    DefaultSpread,
    Domains,
    PodCounts,
    SpreadDefault,
    Spreading,
    concerning,
    count_pods,
    counted_pods,
    counting_nodes,
    domains,
    holders,
    matching_pods,
    near,
    selected_by,
    spaces_of,
    spread_needs,
    spreading,
)
from elasticd.kit.unseen import why_unseen
from elasticd.kit.windows import Pick, Rate, Rates, cool_down, restrain, stabilize
from elasticd.model.moves import whose
from elasticd.model.pod_spec import possible_namespace, whole_number
from elasticd.model.policy import USED_BY_PODS, unheeded
from elasticd.model.workload import COST

Derived = Memo
"""Its name until version 2 of the plugin API."""

__all__ = [
    # what restrains a change, and when
    "Pick", "Rate", "Rates", "cool_down", "restrain", "stabilize", "Hours", "HoursNow", "Instant", "Spell", "standing",
    "steady", "Backoff", "harmless_count", "rollout_left",
    # load, samples and requests
    "Serving", "request_of", "serving", "band_around", "point_of", "timeline", "unfit", "USED_BY_PODS", "unheeded",
    "why_unseen",
    # nodes and their scores
    "LARGEST", "estimated", "needed", "weighed", "whole", "LEAST_USE", "Loaded", "LoadScored", "PartScored", "Seen",
    "average_score", "balance_score", "capacity", "idleness", "load_score", "std_score", "swiftness",
    # the nodes that a pod's rules select, and pods by the labels of their nodes
    "ByNeeds", "any_of", "every_node", "matching", "selected", "tolerated", "with_label", "HOSTNAME", "DefaultSpread",
    "CountingNodes", "Domains", "PodCounts", "SpreadDefault", "Spreading", "Weight", "concerning", "count_pods",
    "counted_pods", "counting_nodes", "domains",
    "holders", "matching_pods", "near", "selected_by", "spaces_of", "spread_needs", "spreading",
    # volumes
    "Blocked", "Match", "Mounts", "beyond_limits", "exclusive", "going_claim", "in_use", "in_use_outside",
    "knows_volumes", "local_claim", "match_claims", "mounts_of", "stranded", "surplus", "uses", "within_reach",
    "within_zones",
    # bindings, and pods that stay
    "BINDING", "OWN_BINDING", "Binding", "BindingRule", "LabelRule", "binding_of", "bindings_of", "COST", "CRITICAL",
    "SPARE", "has_run_for", "rooted", "sparing_annotation", "stationary", "whose",
    # values
    "Derived", "Memo", "format_amount", "format_milli", "milli", "parse_quantity", "possible_namespace", "whole_number",
]  # fmt: skip
