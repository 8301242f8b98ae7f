"""What can be learnt of a workload's pods beside its load.

Knows the shape of a table; knows nothing of how it is used.
"""

from typing import Annotated

from msgspec import Meta, Struct


class Learn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The series of which it is learnt what one pod uses at which load. Both of the workload as a whole, of the same
    past as the load."""

    used: Annotated[str, Meta(min_length=1, description="what all pods use together, such as cores")]
    replicas: Annotated[str, Meta(min_length=1, description='how many pods there were; of the journal: "replicas"')]
