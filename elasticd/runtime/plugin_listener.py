"""Hands what was decided and done to plugins' hooks.

Knows a thread and a queue; knows nothing of what plugins make of it.
"""

import contextlib
import logging
import queue
import threading
from typing import Any

from elasticd.base.text import raised
from elasticd.model.records import Decision, Outcome
from elasticd.registry import Registry
from elasticd.runtime.governed import STRIKES

log = logging.getLogger("elasticd")

BACKLOG = 10_000
"""Records that may wait for plugins' `decided` and `acted`."""


class PluginListener:
    """Hands records to plugins' `decided` and `acted`, in a thread of its own, so that one that blocks keeps nobody
    waiting. One that raises is named, and after so many failures in a row not called again."""

    def __init__(self, registry: Registry, backlog: int = BACKLOG) -> None:
        hooks = registry.modules.hook
        self._told = {"decided": hooks.decided.get_hookimpls(), "acted": hooks.acted.get_hookimpls()}
        self._records: queue.Queue[tuple[str, Decision | Outcome] | None] = queue.Queue(backlog)
        self._strikes: dict[str, int] = {}
        self._behind = False
        self._thread = threading.Thread(target=self._work, name="listeners", daemon=True)
        if any(self._told.values()):
            self._thread.start()

    def decided(self, decision: Decision) -> None:
        """Hand on a decision."""
        self._put("decided", decision)

    def acted(self, outcome: Outcome) -> None:
        """Hand on an outcome."""
        self._put("acted", outcome)

    def ticked(self, lag: float, unchanged: int) -> None:
        """Plugins are not told."""

    def governed(self, keys: object) -> None:
        """Plugins are not told."""

    def _put(self, hook: str, record: Decision | Outcome) -> None:
        if not self._told[hook]:
            return
        try:
            self._records.put_nowait((hook, record))
        except queue.Full:
            if not self._behind:
                log.warning("plugins do not keep up with what they are told: some of it is left out")
            self._behind = True
        else:
            self._behind = False

    def _work(self) -> None:
        while (entry := self._records.get()) is not None:
            hook, record = entry
            for found in self._told[hook]:
                name = f"{found.plugin_name}: {hook}"
                if self._strikes.get(name, 0) < STRIKES:
                    self._call(name, found, record)

    def _call(self, name: str, found: Any, record: Decision | Outcome) -> None:
        try:
            found.function(*[record for _ in found.argnames])
        except BaseException as error:  # sys.exit too is only this plugin's failure
            strikes = self._strikes[name] = self._strikes.get(name, 0) + 1
            after = ", and is switched off until restart" if strikes == STRIKES else ""
            log.warning("plugin %s raised %s%s", name, raised(error), after)
        else:
            self._strikes.pop(name, None)

    def close(self) -> None:
        """Let it finish what it has, if it comes on."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._records.put_nowait(None)
            self._thread.join(0.5)
