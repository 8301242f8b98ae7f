"""The schedule on a genuine cluster: beside the hpa, and alone when a window opens."""

import time
from datetime import UTC, datetime
from pathlib import Path

from elasticd.journal import read
from elasticd.model.records import Decision
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import shipped_rights
from tests.kube.running import running
from tests.kube.test_daemon import scaled, workload

ALWAYS = 'start = "0 0 * * *", duration = 90000'
BESIDE = """
mode = "act"
interval = 1
jitter = 0
workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 20 }}

[[strategy]]
type = "hpa"
metrics = [{{ type = "Resource", resource = "cpu", utilization = 50 }}]
cpu_initialization_period = 1
initial_readiness_delay = 1
behavior = {{ scale_down = {{ stabilization_window = 3 }} }}

[[strategy]]
type = "schedule"
windows = [
    {{ name = "open", {always}, zone = "Europe/Berlin", replicas = 5 }},
    {{ name = "budget", {always}, zone = "America/New_York", replicas = 7, as = "ceiling" }},
]
"""
ALONE = """
mode = "act"
interval = 600
workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 20 }}

[[strategy]]
type = "schedule"
windows = [
    {{ name = "open", {always}, replicas = 3 }},
    {{ name = "rush", start = "{at}", duration = 3600, replicas = 4, as = "exact" }},
]

[[limit]]
type = "scheduled-bounds"
windows = [{{ name = "few", {always}, max = 4 }}]
"""


async def test_a_floor_raises_and_a_ceiling_cuts_the_hpas_wish(kube: Kube, namespace: str, tmp_path: Path) -> None:
    kube.loads.set_load(namespace, "web", cpu=0.1)
    await kube.client.apply(workload(), namespace)
    async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
        rule = BESIDE.format(namespace=namespace, always=ALWAYS)
        async with running(tmp_path / "one", rights.kubeconfig, namespace, {"web": rule}) as daemon:
            await wait_until(daemon.leads, what="the daemon leads")
            await scaled(kube, namespace, 5)
            kube.loads.set_load(namespace, "web", cpu=0.9)
            await scaled(kube, namespace, 7)

            def held() -> str:
                said = daemon.elasticd("explain", f"{namespace}/Deployment/web")
                return said if "hold 7 replicas" in said and "ScheduledCeiling" in said else ""

            said = await wait_until(held, what="seven replicas are held")
            assert "at most 7: budget since" in said
            kube.loads.set_load(namespace, "web", cpu=0.05)
            await scaled(kube, namespace, 5)
            floor = daemon.explained(f"{namespace}/Deployment/web")["decision"]
            wanted = {one["strategy"]: one["replicas"] for one in floor["recommendations"]}
            assert wanted["schedule"] == 5
            assert wanted["hpa"] < 5


async def test_a_schedule_acts_when_its_window_opens_despite_slow_polls(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    await kube.client.apply(workload(), namespace)
    async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
        opens = int(time.time()) + 20
        at = f"{datetime.fromtimestamp(opens, UTC):%S %M %H} * * *"
        rule = ALONE.format(namespace=namespace, at=at, always=ALWAYS)
        async with running(tmp_path / "one", rights.kubeconfig, namespace, {"web": rule}) as daemon:
            await scaled(kube, namespace, 4, within=90)
        decisions = [one for one in read(daemon.folder / "state") if isinstance(one, Decision)]
        first = next(one for one in decisions if one.replicas == 4)
        assert (first.reason, first.interval) == ("ScheduledCount", 600)
        assert 0 <= first.at - opens < 5
