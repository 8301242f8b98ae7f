"""Tells which views of the cluster are too old to act on: in lines for people, and once in the log.

Knows when a view is too old; knows nothing of how it is read.
"""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from elasticd.base.text import one_line
from elasticd.decision.decide import VIEW_AGE
from elasticd.ports.cluster import Kind, View

logger = logging.getLogger(__name__)


def stale(views: Iterable[View], now: float) -> dict[Kind, str]:
    """By kind, since when it is not current, and why, in a line each, of those that are too old to act on."""
    return {view.kind: _described(view) for view in views if now - view.current > VIEW_AGE}


def _described(view: View) -> str:
    since = f"{datetime.fromtimestamp(view.current, UTC):%Y-%m-%d %H:%M:%S} UTC"
    why = f": {view.problem}" if view.problem else ""
    return one_line(f"{view.kind[1]}: not current since {since}{why}")


class StaleViews:
    """Logs, once, that a view has become too old, and that it is current again."""

    def __init__(self) -> None:
        self._told = set[Kind]()

    def note(self, views: Iterable[View], now: float) -> None:
        """Take in what is watched now. Of what is no longer watched nothing more is said."""
        views = list(views)
        lines = stale(views, now)
        for kind in sorted(lines.keys() - self._told):
            logger.warning("%s", lines[kind])
        watched = {view.kind for view in views}
        for kind in sorted((self._told & watched) - lines.keys()):
            logger.info("%s: current again", kind[1])
        self._told = set(lines)
