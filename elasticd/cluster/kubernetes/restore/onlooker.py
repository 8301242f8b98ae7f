"""Tells of evicted pods whose records nobody here continues: in a dry run, which writes nothing.

Knows the records; it must not know what is done with them by who may write.
"""

from datetime import datetime

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.restore.records import Records, Restoration
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.model.moves import Underway

EVERY = 10.0
"""Seconds between two looks."""


class Onlooker:
    """Looks at the records now and then. `underway` are the pods that they are about, as last seen."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records, self._clock = records, clock
        self.underway: list[Underway] = []

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._look()
            await self._clock.sleep_until(self._clock.now() + EVERY)

    async def _look(self) -> None:
        try:
            self.underway = [self._shown(restoration) for restoration in await self._records.listed()]
        except ApiError:
            self.underway = []  # a dry run may be given fewer rights

    def _shown(self, restoration: Restoration) -> Underway:
        record = f"ConfigMap {self._records.home}/{restoration.name}"
        fault = f"{restoration.pod} was to be evicted and recreated: a dry run does neither, its record is {record}"
        since = datetime.fromisoformat(restoration.written).timestamp()
        return Underway(restoration.pod, restoration.uid, "anew", "recorded", since, fault=fault, why=restoration.why)
