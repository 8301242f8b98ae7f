"""Hands decisions and outcomes to plugins' hooks.

Knows a thread and a queue; knows nothing of what plugins make of it.
"""

import contextlib
import logging
import queue
import threading
from typing import Any

from elasticd.base.news import LastReported
from elasticd.base.text import raised
from elasticd.model.listener import Notice
from elasticd.model.records import Decision, Outcome
from elasticd.registry import FailureCounter, Registry

log = logging.getLogger("elasticd")

BACKLOG = 10_000
"""Records that may wait for plugins' `decided` and `acted`."""


class PluginListener:
    """Hands records to plugins' `decided` and `acted`, in a thread of its own, so that a plugin that blocks delays
    nothing else. A plugin that raises is logged, and after too many failures in a row not called again."""

    def __init__(self, registry: Registry, backlog: int = BACKLOG) -> None:
        hooks = registry.modules.hook
        self._implementations = {"decided": hooks.decided.get_hookimpls(), "acted": hooks.acted.get_hookimpls()}
        self._records: queue.Queue[tuple[str, Decision | Outcome] | None] = queue.Queue(backlog)
        self._failures = FailureCounter()
        self._overflowing = LastReported(first=False)
        self._thread = threading.Thread(target=self._work, name="listeners", daemon=True)
        if any(self._implementations.values()):
            self._thread.start()

    def on(self, record: Notice) -> None:
        """Hand on decisions about workloads, and their outcomes."""
        hook = "decided" if isinstance(record, Decision) else "acted"
        if not isinstance(record, Decision | Outcome) or not self._implementations[hook]:
            return
        try:
            self._records.put_nowait((hook, record))
        except queue.Full:
            if self._overflowing.changed(value=True):
                log.warning("plugins do not keep up with decisions and outcomes: some are left out")
        else:
            self._overflowing.changed(value=False)

    def _work(self) -> None:
        while (entry := self._records.get()) is not None:
            hook, record = entry
            for implementation in self._implementations[hook]:
                name = f"{implementation.plugin_name}: {hook}"
                if name not in self._failures.off:
                    self._call(name, implementation, record)

    def _call(self, name: str, implementation: Any, record: Decision | Outcome) -> None:
        try:
            implementation.function(*[record for _ in implementation.argnames])
        except BaseException as error:  # sys.exit too is only this plugin's failure
            switched_off = self._failures.count(name, [name])
            consequence = ", and is switched off until restart" if switched_off else ""
            log.warning("plugin %s raised %s%s", name, raised(error), consequence)
        else:
            self._failures.count(name, ())

    def close(self) -> None:
        """Let the thread finish its records, and wait half a second for it."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._records.put_nowait(None)
            self._thread.join(0.5)
