"""The daemon as a process on a genuine cluster, under no more rights than those that are shipped."""

import asyncio
import re
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from elasticd.journal import read
from elasticd.model.records import Outcome
from tests.kube import fetch
from tests.kube.client import Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.processes import Program, free_port
from tests.kube.rights import shipped_rights
from tests.kube.running import Running, running

ROOT = Path(__file__).parents[2]
PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
POLICY = """
mode = "{mode}"
interval = 1
jitter = 0

workload = {{ namespace = "{namespace}", kind = "{kind}", name = "web" }}
replicas = {{ min = 1, max = 8 }}

[[strategy]]
type = "hpa"
metrics = [{{ type = "Resource", resource = "cpu", utilization = 50 }}]
cpu_initialization_period = 1
initial_readiness_delay = 1
behavior = {{ scale_down = {{ stabilization_window = 3 }} }}

[[strategy]]
type = "cadence"
medium = 2
slow = 3
"""


def policy(namespace: str, kind: str = "Deployment", mode: str = "act") -> dict[str, str]:
    """A policy for the workload `web`: half of 100m for each pod."""
    return {"web": POLICY.format(namespace=namespace, kind=kind, mode=mode)}


def workload(kind: str = "Deployment", replicas: int = 2) -> dict[str, Any]:
    """The workload `web`, with pods of 100m."""
    labels = {"app": "web"}
    container = {"name": "main", "image": "example.test/main:1", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}
    spec: dict[str, Any] = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        spec |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}


@asynccontextmanager
async def governed(
    kube: Kube,
    namespace: str,
    folder: Path,
    kind: str = "Deployment",
    mode: str = "act",
    more: str = "",
    table: str = "",
) -> AsyncIterator[Running]:
    """A daemon that governs a workload `web` of two pods at half of their set point; `more` for its settings, a `table`
    for its policy."""
    kube.loads.set_load(namespace, "web", cpu=0.1)
    await kube.client.apply(workload(kind), namespace)
    async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
        policies = {name: text + table for name, text in policy(namespace, kind, mode).items()}
        async with running(folder, rights.kubeconfig, namespace, policies, more) as daemon:
            await wait_until(daemon.leads, what="the daemon leads")
            yield daemon


async def scaled(kube: Kube, namespace: str, replicas: int, kind: str = "Deployment", within: float = 60.0) -> None:
    """Wait until the workload asks for so many replicas."""

    async def there() -> bool:
        scale = await kube.client.get(f"/apis/apps/v1/namespaces/{namespace}/{PLURALS[kind]}/web/scale")
        return bool(scale["spec"].get("replicas", 0) == replicas)  # 0 is left out

    await wait_until(there, within=within, what=f"{kind} web is scaled to {replicas}")


async def events(kube: Kube, namespace: str, reason: str) -> Objects:
    """The Events on the workload for a reason."""
    found = await kube.client.list(f"/api/v1/namespaces/{namespace}/events")
    return [one for one in found if one["reason"] == reason and one["involvedObject"]["name"] == "web"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_a_workload_follows_its_load_up_and_down(kube: Kube, namespace: str, tmp_path: Path, kind: str) -> None:
    async with governed(kube, namespace, tmp_path / "one", kind) as daemon:
        kube.loads.set_load(namespace, "web", cpu=0.3)
        await scaled(kube, namespace, 6, kind)
        kube.loads.set_load(namespace, "web", cpu=0.05)
        await scaled(kube, namespace, 1, kind)
        told = await wait_until(lambda: events(kube, namespace, "SuccessfulRescale"), what="an Event tells of it")
        assert any("New size: 6; reason: cpu resource utilization" in one["message"] for one in told)
        assert {one["involvedObject"]["kind"] for one in told} == {kind}
        _, metrics = await daemon.page("/metrics")
        assert re.search(r'elasticd_actions_total\{.*result="done".*\} [2-9]', metrics)
        assert re.search(r'elasticd_api_calls_total\{code="200",resource="\w+/scale",verb="patch"\} [2-9]', metrics)


async def test_counters_and_journal_equal_the_servers_log(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with governed(kube, namespace, tmp_path / "one") as daemon:
        for cpu, replicas in ((0.3, 6), (0.05, 1), (0.2, 4)):
            kube.loads.set_load(namespace, "web", cpu=cpu)
            await scaled(kube, namespace, replicas)
        await asyncio.sleep(2)  # it has the answer, too, and changes nothing more
        _, metrics = await daemon.page("/metrics")
        outcomes = [one for one in read(daemon.folder / "state") if isinstance(one, Outcome)]
    call = r'elasticd_api_calls_total\{code="(\d+)",resource="deployments/scale",verb="patch"\} (\d+)'
    server = Counter(
        str(entry["responseStatus"]["code"])
        for entry in kube.plane.audit()
        if entry.get("objectRef", {}).get("namespace") == namespace
        and entry["objectRef"].get("subresource") == "scale"
        and (entry["user"]["username"], entry["verb"]) == ("elasticd", "patch")
    )
    assert server["200"] >= 3
    assert {code: int(count) for code, count in re.findall(call, metrics)} == server
    found = re.findall(r'elasticd_actions_total\{.*result="(\w+)".*\} (\d+)', metrics)
    assert sum(int(count) for result, count in found if result == "done") == server["200"]
    assert Counter(one.result for one in outcomes)["done"] == server["200"], "one record for each action"


async def test_explain_shows_everything_a_decision_was_made_of(
    kube: Kube, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with governed(kube, namespace, tmp_path / "one") as daemon:
        kube.loads.set_load(namespace, "web", cpu=0.9)
        await scaled(kube, namespace, 6)

        kept = tmp_path / "kept"

        def keep() -> bool:
            """Copy the journal when its last word is the outcome: a look later, another decision is the latest."""
            *_, last = list(read(daemon.folder / "state"))
            if not (isinstance(last, Outcome) and last.after == 8):
                return False
            shutil.copytree(daemon.folder / "state", kept)
            return True

        await wait_until(keep, what="the count is set to 8", every=0.02)
        said = daemon.elasticd("explain", f"{namespace}/Deployment/web", "--state", str(kept))
    with capsys.disabled():
        print(f"\n$ elasticd explain {namespace}/Deployment/web\n{said}")
    for item in (
        r"6 -> 8 replicas",
        r"cpu +resource-metrics +fresh +\d+ ",
        r"hpa +18 +cpu resource utilization",
        r"18 +cpu 150%, target 50%",
        r"bounds +1 to 8 +yes +TooManyReplicas",
        r"AbleToScale +True",
        r"ScalingActive +True +ValidMetricFound",
        r"ScalingLimited +True +TooManyReplicas",
        r"scale 6 -> 8: done \(HTTP 200\)",
    ):
        assert re.search(item, said), f"{item} must be in:\n{said}"
    assert daemon.elasticd("explain", f"{namespace}/Deployment/web"), "it works on a stopped daemon too"
    assert alike(said) == alike(documented()), "the README shows what is printed"


def documented() -> str:
    """What the README says that is."""
    _, _, block = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n$ elasticd explain test-")
    return block.partition("\n")[2].partition("\n```")[0]


def alike(printed: str) -> list[str]:
    """Its lines without what may differ from run to run: the namespace's name, and numbers."""
    return [re.sub(r"test-\w+|\d[\d.]*", "*", " ".join(line.split())) for line in printed.strip().splitlines()]


async def test_without_metrics_nothing_shrinks_and_the_workload_says_why(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    async with governed(kube, namespace, tmp_path / "one") as daemon:
        kube.loads.set_load(namespace, "web", cpu=0.3)
        await scaled(kube, namespace, 6)
        kube.metrics.failure = 503
        try:
            kube.loads.set_load(namespace, "web", cpu=0.05)

            def held() -> Any:
                decision = daemon.explained(f"{namespace}/Deployment/web")["decision"]
                return decision if (decision["verdict"], decision["current"]) == ("hold", 6) else None

            decision = await wait_until(held, what="six replicas are held")
            assert (decision["replicas"], decision["reason"]) == (6, "FailedGetResourceMetric")
            assert decision["series"][0]["quality"] in ("error", "stale")
            await wait_until(lambda: events(kube, namespace, "FailedGetResourceMetric"), what="an Event says why")
        finally:
            kube.metrics.failure = None
        await scaled(kube, namespace, 1)


async def test_what_only_observes_never_writes(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with governed(kube, namespace, tmp_path / "one", mode="observe") as daemon:
        kube.loads.set_load(namespace, "web", cpu=0.3)

        def observed() -> bool:
            outcome = daemon.explained(f"{namespace}/Deployment/web")["outcome"]
            return outcome is not None and outcome["result"] == "observed"

        await wait_until(observed, what="the journal says what would have been done")
    await scaled(kube, namespace, 2)
    writes = [one for one in kube.plane.audit() if one["user"]["username"] == "elasticd"]
    mine = [one["objectRef"] for one in writes if one["objectRef"].get("namespace") == namespace]
    assert {one["resource"] for one in mine} == {"leases"}


async def test_a_dry_run_sends_nothing_and_sees_its_pretended_scale(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with governed(kube, namespace, tmp_path / "one", more="dry_run = true") as daemon:
        kube.loads.set_load(namespace, "web", cpu=0.3)

        def pretended() -> bool:
            return bool(daemon.explained(f"{namespace}/Deployment/web")["decision"].get("current") == 6)

        await wait_until(pretended, what="a later decision sees six replicas")
    await scaled(kube, namespace, 2)
    await kube.client.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale", {"spec": {"replicas": 3}})

    def written_here() -> list[dict[str, Any]]:
        """By whomever, here or in no namespace, but for questions; once the write above is there, the log is
        complete."""
        asked = "selfsubjectaccessreviews"
        refs = ((one, one["objectRef"]) for one in kube.plane.audit())
        here = [one for one, ref in refs if ref.get("namespace") in (namespace, None) and ref["resource"] != asked]
        return here if any(one["objectRef"].get("subresource") == "scale" for one in here) else []

    written = await wait_until(written_here, what="the audit log is complete")
    assert [one["objectRef"] for one in written if one["user"]["username"] == "elasticd"] == []


async def test_it_goes_on_after_the_api_server_was_restarted(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with governed(kube, namespace, tmp_path / "one"):
        kube.loads.set_load(namespace, "web", cpu=0.2)
        await scaled(kube, namespace, 4)
        await kube.plane.restart_apiserver()
        kube.loads.set_load(namespace, "web", cpu=0.4)
        await scaled(kube, namespace, 8)


async def test_when_the_leader_is_killed_the_other_goes_on(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with governed(kube, namespace, tmp_path / "one") as first:
        kubeconfig = kube.plane.kubeconfig("elasticd")
        async with running(tmp_path / "two", kubeconfig, namespace, policy(namespace)) as second:
            assert (await first.leads(), await second.leads()) == (True, False)
            kube.loads.set_load(namespace, "web", cpu=0.2)
            await scaled(kube, namespace, 4)
            assert (await second.status())["decisions"] == []
            await first.program.kill()
            await wait_until(second.leads, what="the other leads")
            kube.loads.set_load(namespace, "web", cpu=0.4)
            await scaled(kube, namespace, 8)


async def test_a_resumed_leader_notices_that_it_no_longer_leads(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with (
        governed(kube, namespace, tmp_path / "one") as first,
        running(
            tmp_path / "two", kube.plane.kubeconfig("elasticd"), namespace, policy(namespace, mode="observe")
        ) as second,
    ):

        async def tells_of_other_policies() -> bool:
            faults = (await second.status())["faults"]
            return any("leads with other policies than these: 1 of 1 act there, 0 of 1 here" in one for one in faults)

        await wait_until(tells_of_other_policies, what="the standby tells that the leader has other policies")
        assert (await first.status())["faults"] == []
        first.program.signal(signal.SIGSTOP)
        await wait_until(second.leads, what="the other leads")
        first.program.signal(signal.SIGCONT)

        async def has_noticed() -> bool:
            return not await first.leads()

        await wait_until(has_noticed, what="the first has noticed")
        assert await second.leads()


async def test_a_genuine_prometheus_scrapes_it(kube: Kube, namespace: str, tmp_path: Path) -> None:
    binary = fetch.find_program("prometheus")
    if binary is None:
        pytest.skip(fetch.HOW_TO_GET)
    async with governed(kube, namespace, tmp_path / "one") as daemon:
        port = free_port()
        config = tmp_path / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: elasticd, static_configs: [{{targets: ['127.0.0.1:{daemon.port}']}}]}}]\n"
        )
        flags = [
            f"--config.file={config}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={tmp_path}/tsdb",
        ]
        prometheus = Program("prometheus", [binary, *flags], tmp_path / "prometheus.log")
        prometheus.start()
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

                async def value(query: str) -> float:
                    async with session.get("/api/v1/query", params={"query": query}) as answer:
                        found = (await answer.json())["data"]["result"]
                        return float(found[0]["value"][1]) if found else 0.0

                await wait_until(lambda: value('elasticd_decisions_total{name="web"}'), what="Prometheus has decisions")
                assert await value("elasticd_leader") == 1
                assert await value('elasticd_current_replicas{name="web"}') == 2
                assert await value("up") == 1
        finally:
            await prometheus.stop()


async def test_a_concurrent_scale_by_a_person_is_not_overwritten_blindly(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    """A person and the daemon write in turn: each write of the daemon's is judged on what the person left."""
    async with governed(kube, namespace, tmp_path / "one", table="[foreign]\nstrikes = 0\n") as daemon:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale"
        # Of 100m, three pods have 34m each, rounded up, and stay three; of 95m each count asks for two.
        kube.loads.set_load(namespace, "web", cpu=0.095)
        for _ in range(5):
            await kube.client.patch(path, {"spec": {"replicas": 5}})
            await scaled(kube, namespace, 2)

        def done() -> list[Outcome]:
            found = [record for record in read(daemon.folder / "state") if isinstance(record, Outcome)]
            return [one for one in found if one.result == "done"]

        # The server shows the last of them before the daemon has its answer.
        await wait_until(lambda: len(done()) >= 5, what="the last answer is written down")
        assert [(one.before, one.after) for one in done()] == [(5, 2)] * 5
