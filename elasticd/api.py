"""The plugin API: base classes, hookimpl, and the nouns that hooks are given and answer with.

A plugin imports from here and from elasticd.kit, which has what strategies share; the rest of elasticd may change
without a word.
"""

from msgspec import Meta, Struct, field

from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.hookspecs import hookimpl
from elasticd.model.actions import Mark
from elasticd.model.forecast import Forecast, PerPod
from elasticd.model.history import Change, Past, Point, Run
from elasticd.model.jobs import Job
from elasticd.model.moves import Fits, Look, Move, Moved, MoveDecision, NodeLevel, PoolPast, Stand
from elasticd.model.placement import (
    Candidate,
    Column,
    DisruptionBudget,
    EvictionOrder,
    Mask,
    Mend,
    Nodes,
    Placement,
    Places,
    PodDecision,
    PodOutcome,
    PoolObservation,
    Refusal,
    Scores,
    Selection,
    Spared,
    Turn,
    Victims,
    Whole,
)
from elasticd.model.pod_spec import (
    Disk,
    Expression,
    Needs,
    NodePreference,
    Operator,
    PodClaim,
    PodPreference,
    PodTerm,
    Port,
    Repel,
    Taint,
    Term,
    Toleration,
    TopologySpread,
)
from elasticd.model.policy import (
    MOST,
    Bounds,
    Count,
    LimitStrategy,
    Policy,
    Poll,
    PoolPolicy,
    PoolSelect,
    PoolStrategy,
    Seconds,
    Strategy,
)
from elasticd.model.records import Decision, Outcome
from elasticd.model.volumes import Storage, StorageCapacity, StorageClass, Volume, VolumeClaim, Volumes
from elasticd.model.workload import (
    NEVER,
    Band,
    Condition,
    Container,
    Image,
    LeftOut,
    Limit,
    Measure,
    Node,
    Observation,
    Pod,
    Quality,
    Rank,
    Readings,
    Recommendation,
    Ref,
    Resources,
    Room,
    Sample,
    Series,
    Workload,
)
from elasticd.ports.cluster import Snapshot
from elasticd.ports.source import History, Points, Reader, Site, Source, Subject, TimeRange

API_VERSION = "1.0"
"""The version of what is here and in elasticd.kit, elasticd.hookspecs and elasticd.testing, as MAJOR.MINOR: a plugin
states the one it was written for as ELASTICD_API. docs/plugins.md says what may change when."""

__all__ = [
    # what a plugin is made of
    "API_VERSION", "hookimpl", "Strategy", "LimitStrategy", "PoolStrategy", "Source", "Struct", "Meta", "field",
    "Bounds", "Count", "MOST", "Poll", "Seconds", "ConfigError", "UnavailableError",
    # a workload: what is known of it, and what a strategy or limit says
    "Policy", "Workload", "Ref", "Job", "Mark", "Observation", "Series", "Sample", "Quality", "Forecast", "PerPod",
    "Past", "Change", "Point", "Run", "Recommendation", "Measure", "LeftOut", "Condition", "Limit", "Rank",
    "Resources", "Band", "NEVER",
    # pods and nodes
    "Pod", "Container", "Needs", "Node", "Image", "Room", "Taint", "Toleration", "Term", "Expression", "Operator",
    "Port", "Disk", "PodTerm", "PodPreference", "NodePreference", "TopologySpread", "Repel",
    # volumes
    "PodClaim", "Storage", "StorageCapacity", "StorageClass", "Volume", "VolumeClaim", "Volumes",
    # a pool: what is known of it, and what a strategy says of places, victims and moves
    "PoolPolicy", "PoolSelect", "PoolObservation", "PoolPast", "DisruptionBudget", "Nodes", "Column", "Mask",
    "Candidate", "Placement", "Places", "Refusal", "Mend", "Scores", "Selection", "Whole", "Victims", "Spared",
    "Turn", "EvictionOrder", "Move", "Moved", "Look", "Fits", "Stand", "NodeLevel",
    # records in the journal
    "Decision", "Outcome", "PodDecision", "PodOutcome", "MoveDecision",
    # sources
    "Site", "Snapshot", "Subject", "Reader", "Readings", "TimeRange", "History", "Points",
]  # fmt: skip
