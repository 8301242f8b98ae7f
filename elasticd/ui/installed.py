"""Describes the installed plugins: a list with kind and purpose, or all about one.

Knows how plugins describe themselves; knows nothing of what any of them does.
"""

import inspect
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.base.errors import UnavailableError, nearest
from elasticd.base.text import one_line, plain
from elasticd.config.tables import PLACING
from elasticd.registry import Installed, Registry, implemented
from elasticd.ui.options import Option, options, summary
from elasticd.ui.terminal import make_table

_DOES = {
    "recommend_replicas": "says how many replicas",
    "recommend_resources": "says what containers request",
    "limit": "limits counts",
    "rank_pods": "chooses which pods go first",
    "poll_interval": "sets how often to look",
    "filter_nodes": "filters nodes",
    "select_nodes": "binds pods to nodes",
    "score_nodes": "scores nodes",
    "place_pods": "places pods together",
    "select_victims": "preempts pods",
    "rebind_pods": "moves pods as labels change",
    "rebalance_nodes": "moves pods off nodes",
}

_KINDS = ("strategy", "limit", "pool strategy", "source")
"""The kinds of plugins, in the order of the list."""


def everything(registry: Registry) -> list[Installed]:
    """All that is installed."""
    return [*registry.strategies.values(), *registry.sources.values()]


def called(registry: Registry, name: str) -> list[Installed]:
    """The plugins of this name: a strategy and a source may share one. Raises UnavailableError if there is none."""
    matches = [plugin for plugin in everything(registry) if plugin.name == name]
    if not matches:
        names = {plugin.name for plugin in everything(registry)}
        raise UnavailableError(f'nothing installed is called "{one_line(name)}"{nearest(name[:60], names)}')
    return matches


def described(plugin: Installed, registry: Registry) -> dict[str, Any]:
    """Everything about one plugin, as JSON-ready data."""
    hooks = implemented(plugin.type)
    kind = _kind(plugin, hooks, registry)
    return {
        "name": plugin.name,
        "kind": kind,
        "does": [words for hook, words in _DOES.items() if hook in hooks],
        "plugin": plugin.plugin,
        "distribution": plugin.distribution,
        "file": _file(plugin.type),
        "summary": summary(plugin.type),
        "doc": inspect.getdoc(plugin.type) or "",
        "options": [option for option in options(plugin.type) if not (kind == "limit" and option.name == "priority")],
    }


def _kind(plugin: Installed, hooks: frozenset[str], registry: Registry) -> str:
    """The kind of a plugin, which decides where it may stand in a policy file."""
    if registry.sources.get(plugin.name) == plugin:
        return "source"
    if hooks & PLACING:
        return "pool strategy"
    is_limit = "limit" in hooks and not hooks & {"recommend_replicas", "recommend_resources", "rank_pods"}
    return "limit" if is_limit else "strategy"


def _file(record: type[Any]) -> str:
    try:
        return inspect.getsourcefile(record) or ""
    except TypeError:  # it was made by no file
        return ""


def listed(registry: Registry) -> RenderableType:
    """A table with a row for each plugin, by kind."""
    descriptions = [described(plugin, registry) for plugin in everything(registry)]
    descriptions.sort(key=lambda description: (_KINDS.index(description["kind"]), description["name"]))
    rows = ((entry["name"], entry["kind"], ", ".join(entry["does"]) or entry["summary"]) for entry in descriptions)
    table = make_table("name", "kind", "what it does", rows=rows)
    problems = [Text(plain(problem), style="red") for problem in registry.problems]
    return Group(table, *problems, Text("\nelasticd plugins NAME: its options, with defaults and bounds", style="dim"))


def shown(plugin: Installed, registry: Registry) -> RenderableType:
    """Everything about one plugin, for the terminal."""
    description = described(plugin, registry)
    does = f": {', '.join(description['does'])}" if description["does"] else ""
    head = Text.assemble((one_line(plugin.name), "bold"), "  ", one_line(f"{description['kind']}{does}"))
    file = description["file"] or "of no file"
    brought = f"plugin {plugin.plugin} of {plugin.distribution or 'no distribution'}, {file}"
    # Its paragraphs are as wide as the terminal.
    doc = "\n\n".join(" ".join(paragraph.split()) for paragraph in description["doc"].split("\n\n"))
    lines = [Text(one_line(brought), style="dim"), Text(), Text(plain(doc)), Text()]
    table = description["kind"] if description["kind"] in ("source", "limit") else "strategy"
    return Group(head, *lines, Text(f'[[{table}]]\ntype = "{plugin.name}"'), _options(description["options"]))


def _options(entries: Sequence[Option]) -> Table:
    """A row for each; those of a table stand below it, further in."""
    table = make_table("option", "is", "default", "what it means")
    table.columns[0].no_wrap = True
    table.columns[1].max_width, table.columns[2].max_width = 28, 16
    before = ""
    for option in entries:
        above, _, name = option.name.rpartition(".")
        inward = "  " * option.name.count(".")
        if above.endswith("]") and above[-2] != "[" and above != before:  # of a table of this type
            table.add_row(f"{inward[2:]}  [{above.rpartition('[')[2]}", "", "", "")
        before = above
        own = option.kind == "table" and option.default.startswith('{"')  # its defaults stand in its own rows
        table.add_row(inward + name, option.kind, "" if own else option.default, option.description)
    return table
