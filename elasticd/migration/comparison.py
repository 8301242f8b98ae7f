"""Prints what autoscalers did beside what policies in shadow would have done.

Knows comparisons; knows nothing of how they are made.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from elasticd.migration.compare import Comparison
from elasticd.ui.terminal import add_row, make_table, seconds


def comparison_table(comparisons: Sequence[Comparison]) -> RenderableType:
    """A row for each workload and policy: what was, and after the arrow what would have been."""
    table = make_table("workload", "policy", "beside", "over", "replica-hours", "", "unserved", "changes")
    for each in comparisons:
        hours = f"{each.theirs:.1f} -> {each.ours:.1f}"
        share = f"{(each.ours / each.theirs - 1) * 100:+.0f} %" if each.theirs else ""
        changes = f"{each.their_changes} -> {each.our_changes}"
        add_row(
            table, str(each.workload), each.policy, each.beside or "-", seconds(each.seconds), hours, share,
            _unserved(each), changes,
        )  # fmt: skip
    note = "was -> would have been; unserved: part of the cpu used that the requests of so many pods do not cover"
    return Group(table, Text(note, style="dim"))


def _unserved(each: Comparison) -> str:
    if not each.demand:
        return "not known"
    shares = (unserved / each.demand * 100 for unserved in (each.their_unserved, each.our_unserved))
    return " -> ".join(f"{share:.1f} %" for share in shares)
