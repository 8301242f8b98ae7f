"""What restrains scaling, on a genuine cluster: freezes, rollouts, HPAs, other writers, and nodes that are full."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elasticd.journal import read
from elasticd.model.records import Outcome
from tests.faults.injector import ApiInjector
from tests.faults.plan import Fault
from tests.kube.admission import no_larger_sets
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.reports import NodeSpec
from tests.kube.rights import shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import events, policy, scaled, workload

DEPLOYMENT = "/apis/apps/v1/namespaces/{}/deployments/web"


@asynccontextmanager
async def limited(
    kube: Kube,
    namespace: str,
    folder: Path,
    limits: str = "",
    pods: Mapping[str, Any] | None = None,
    disruption: str = "within = 1",
) -> AsyncIterator[Running]:
    """A daemon that governs two pods of `web` at half of their set point, within these limits; `pods` adds to their
    template, and `disruption` is the table of this name."""
    kube.loads.set_load(namespace, "web", cpu=0.1)
    made = workload()
    made["spec"]["template"]["spec"] |= pods or {}
    await kube.client.apply(made, namespace)
    async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
        policies = {"web": policy(namespace)["web"] + limits}
        async with running(folder, rights.kubeconfig, namespace, policies, disruption=disruption) as daemon:
            await wait_until(daemon.leads, what="the daemon leads")
            yield daemon


async def held(daemon: Running, namespace: str, reason: str, current: int = 2) -> JSON:
    """Wait until so many replicas are held for a reason; gives the decision."""

    def there() -> Any:
        decision = daemon.explained(f"{namespace}/Deployment/web")["decision"]
        return decision if (decision.get("reason"), decision.get("current")) == (reason, current) else None

    decision = await wait_until(there, what=f"{current} replicas are held: {reason}")
    assert (decision["verdict"], decision["replicas"]) == ("hold", current)
    return decision


async def test_a_person_freezes_a_workload_by_an_annotation(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with limited(kube, namespace, tmp_path / "one") as daemon:
        path = DEPLOYMENT.format(namespace)
        await kube.client.patch(path, {"metadata": {"annotations": {"elasticd.io/freeze": "up"}}})
        kube.loads.set_load(namespace, "web", cpu=0.3)
        decision = await held(daemon, namespace, "Frozen")
        assert decision["wish"] == 6, "it is seen what it would do"
        await kube.client.patch(path, {"metadata": {"annotations": {"elasticd.io/freeze": "UP!"}}})
        await wait_until(lambda: events(kube, namespace, "FreezeUnreadable"), what="an Event says so")
        await kube.client.patch(path, {"metadata": {"annotations": {"elasticd.io/freeze": "down"}}})
        await scaled(kube, namespace, 6)
        kube.loads.set_load(namespace, "web", cpu=0.05)
        await held(daemon, namespace, "Frozen", 6)
        await kube.client.patch(path, {"metadata": {"annotations": {"elasticd.io/freeze": None}}})
        await scaled(kube, namespace, 1)


async def test_the_daemon_yields_to_an_hpa_until_it_is_gone(kube: Kube, namespace: str, tmp_path: Path) -> None:
    hpa = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "theirs"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 2,
        },
    }
    async with limited(kube, namespace, tmp_path / "one") as daemon:
        await kube.client.apply(hpa, namespace)
        decision = await held(daemon, namespace, "ForeignOwner")
        kube.loads.set_load(namespace, "web", cpu=0.3)
        await wait_until(lambda: events(kube, namespace, "ForeignOwner"), what="an Event tells of it")
        assert "HorizontalPodAutoscaler theirs" in decision["message"]
        assert (await held(daemon, namespace, "ForeignOwner"))["message"] == decision["message"]
        await kube.client.delete(f"/apis/autoscaling/v1/namespaces/{namespace}/horizontalpodautoscalers/theirs")
        await scaled(kube, namespace, 6)


async def test_it_yields_to_who_overwrites_it_again_and_again(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """A person sets 5 over each count of the daemon's: the third time it is left at that."""
    async with limited(kube, namespace, tmp_path / "one") as daemon:
        path = DEPLOYMENT.format(namespace)
        for _ in range(3):
            kube.loads.set_load(namespace, "web", cpu=0.3)
            await scaled(kube, namespace, 6)
            await kube.client.patch(path, {"spec": {"replicas": 5}})
        decision = await held(daemon, namespace, "ForeignOwner", 5)
        assert "set another count after elasticd 3 times within 600 s" in decision["message"]
        await wait_until(lambda: events(kube, namespace, "ForeignOwner"), what="an Event tells of it")
        done = [one for one in read(daemon.folder / "state") if isinstance(one, Outcome) and one.result == "done"]
        assert [one.after for one in done] == [6, 6, 6]


async def test_nothing_moves_while_a_rollout_is_in_progress(kube: Kube, namespace: str, tmp_path: Path) -> None:
    limits = '[[limit]]\ntype = "rollout"\nforbids = "both"\n'
    path, startup = DEPLOYMENT.format(namespace), kube.nodes.startup
    bad, good = ({"spec": {"template": {"metadata": {"labels": {"version": name}}}}} for name in ("bad", "good"))
    kube.nodes.startup = lambda pod: None if pod["metadata"]["labels"].get("version") == "bad" else startup(pod)
    try:
        async with limited(kube, namespace, tmp_path / "one", limits) as daemon:
            await kube.client.patch(path, bad)

            async def begun() -> bool:
                return bool((await kube.client.get(path))["status"].get("replicas") == 3)

            await wait_until(begun, what="a pod of the new template is there, and is never ready")
            kube.loads.set_load(namespace, "web", cpu=0.3)
            decision = await held(daemon, namespace, "RolloutInProgress")
            assert decision["message"] == "1 of 3 pods are of the newest template"
            await kube.client.patch(path, good)
            await scaled(kube, namespace, 6)
    finally:
        kube.nodes.startup = startup


@pytest.mark.since("1.36", "1.20 knows no ValidatingAdmissionPolicy")
async def test_a_growth_that_admission_refuses_is_taken_back(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """It refuses the ReplicaSet, not the Deployment, whose controller then sees no newer spec: that is no rollout."""
    async with (
        limited(kube, namespace, tmp_path / "one", '[[limit]]\ntype = "rollout"\n') as daemon,
        no_larger_sets(kube, namespace, 2),
    ):
        path = DEPLOYMENT.format(namespace)
        kube.loads.set_load(namespace, "web", cpu=0.3)

        async def has(count: int) -> bool:
            return bool((await kube.client.get(path))["spec"]["replicas"] == count)

        await wait_until(partial(has, 6), what="its count is higher")
        kube.loads.set_load(namespace, "web", cpu=0.05)
        await scaled(kube, namespace, 1)

        def told() -> list[int]:
            records = read(daemon.folder / "state")
            return [one.after for one in records if isinstance(one, Outcome) and one.result == "done"]

        await wait_until(lambda: told()[-1:] == [1], what="its outcome is written")
        assert told() == [6, 2, 1], "first to as many as there are"


async def test_it_grows_as_far_as_the_nodes_carry_it(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """Two nodes for three pods of 100m each, while the load asks for eight."""
    limits = '[[limit]]\ntype = "capacity"\nnodes = { pool = "tiny" }\n'
    nodes = [NodeSpec(f"tiny-{number}", cpu="300m", labels={"pool": "tiny"}) for number in range(2)]
    async with (
        kube.nodes.having(*nodes),
        limited(kube, namespace, tmp_path / "one", limits, {"nodeSelector": {"pool": "tiny"}}) as daemon,
    ):
        kube.loads.set_load(namespace, "web", cpu=0.5)
        await scaled(kube, namespace, 6)
        decision = await held(daemon, namespace, "NoCapacity", 6)
        assert decision["message"] == "room for 0 more pods (cpu 0.1); 0 wait for a node"
        async with kube.nodes.having(NodeSpec("tiny-2", cpu="300m", labels={"pool": "tiny"})):
            await scaled(kube, namespace, 8)
            await kube.client.delete(DEPLOYMENT.format(namespace))


async def test_a_min_of_900_instead_of_1_is_held_back(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """All 900 were there after 35 s."""
    async with limited(kube, namespace, tmp_path / "one", disruption="") as daemon:
        path = daemon.folder / "policies" / "web.toml"
        dangerous = path.read_text().replace("min = 1, max = 8", "min = 900, max = 900")
        path.write_text(dangerous)
        daemon.program.signal(signal.SIGHUP)
        decision = await held(daemon, namespace, "BoundsPaced", 12)
        assert "until confirmed = 900 stands under [replicas]" in decision["message"]
        await asyncio.sleep(35)
        found = await kube.client.get(DEPLOYMENT.format(namespace))
        assert found["spec"]["replicas"] == 12, "ten more in the first minute"


async def test_a_pause_of_a_day_stops_no_other_write(kube: Kube, namespace: str, tmp_path: Path) -> None:
    """One answer of 429 with `Retry-After: 86400`, about one Deployment."""
    policies = {}
    for name in ("web", "shop"):
        kube.loads.set_load(namespace, name, cpu=0.1)
        made = workload()
        made["metadata"]["name"] = name
        for labels in (made["spec"]["selector"]["matchLabels"], made["spec"]["template"]["metadata"]["labels"]):
            labels["app"] = name
        await kube.client.apply(made, namespace)
        policies[name] = policy(namespace)["web"].replace('name = "web"', f'name = "{name}"')
    folder = tmp_path / "one"
    folder.mkdir()
    async with (
        shipped_rights(kube.plane, "elasticd", namespace),
        ApiInjector(kube.plane, 0, 0) as proxy,
        running(folder, proxy.kubeconfig("elasticd", folder), namespace, policies) as daemon,
    ):
        await wait_until(daemon.leads, what="the daemon leads")
        proxy.faults.begin([Fault(0, "status", "PATCH", "scale", 0, 600, value=86_400, code=429, most=1)])
        kube.loads.set_load(namespace, "shop", cpu=0.3)

        async def told() -> bool:
            problems = (await daemon.status())["cluster"]["problems"]
            return "the server asked not to repeat patch" in problems.get("writes", "")

        await wait_until(told, what="status tells of it")
        assert proxy.faults.injected.total() == 1
        kube.loads.set_load(namespace, "web", cpu=0.3)
        await scaled(kube, namespace, 6, within=20)
        shop = await kube.client.get(DEPLOYMENT.format(namespace).replace("/web", "/shop"))
        assert shop["spec"]["replicas"] == 2
        assert sum(path.endswith("/shop/scale") for _, path, _ in proxy.written) == 0, "nor is it asked again"
