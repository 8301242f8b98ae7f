"""A workload changes from the genuine HPA controller to elasticd and back; command or daemon are killed at each write.

The HPA wants four replicas and elasticd eight, so two writers at a time would show as counts that change to and fro,
and in the API server's audit log. KEDA has no controller here: its ScaledObject is an object of its kind, and what KEDA
answers is written by the test.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from elasticd.kit.handover import FENCE
from tests.kube.between import Between, Moment
from tests.kube.client import JSON, ApiError, wait_until
from tests.kube.conftest import Kube
from tests.kube.control_plane import CONTROLLER_MANAGER
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_parity import Sequence as Counts
from tests.kube.test_parity import autoscaler, follow, twin

USER = "elasticd"
THEIRS, OURS = 4, 8
POLICY = """
mode = "act"
interval = 0.2
jitter = 0
workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 10 }}

[[strategy]]
type = "hpa"
metrics = [{{ type = "Resource", resource = "cpu", utilization = 25 }}]
cpu_initialization_period = 1
initial_readiness_delay = 1

[strategy.behavior.scale_down]
stabilization_window = 0
"""
QUICKLY = {"scaleDown": {"stabilizationWindowSeconds": 0}}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Scene:
    """The workload, its HPA, the daemon, and the counts that there were."""

    def __init__(
        self, kube: Kube, namespace: str, daemon: Running, proxy: Between, kubeconfigs: tuple[Path, Path]
    ) -> None:
        self.kube, self.namespace, self.daemon, self.proxy = kube, namespace, daemon, proxy
        self._direct, self._through = kubeconfigs
        self.deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
        version = "v2" if kube.plane.version >= (1, 23) else "v2beta2"
        self.hpa = f"/apis/autoscaling/{version}/namespaces/{namespace}/horizontalpodautoscalers/web"
        self.counts = Counts(0.0)
        self._is_dead = False

    async def command(self, *words: str, verb: str = "takeover", through: bool = False) -> tuple[int, str]:
        """Run `elasticd takeover`, or another verb: its exit code, and what it printed."""
        workload, config = f"{self.namespace}/Deployment/web", self.daemon.folder / "elasticd.toml"
        kubeconfig = self._through if through else self._direct
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "elasticd", verb, workload, *words),
            *("--config", str(config), "--kubeconfig", str(kubeconfig)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await self.process.communicate()
        return self.process.returncode or 0, output.decode()

    async def change_hands(self, steps: Sequence[str], moment: Moment, victim: str, *words: str) -> None:
        """Let the workload change hands by a command that is run again and again: at each of these steps, one after the
        other, it is killed, or the daemon is; at last neither is."""
        for step in steps:
            self.proxy.cut(step, moment, self._kill_daemon if victim == "daemon" else self._kill_command)
            await self._revive_daemon()
            await self._insist(self.proxy.fired, *words)
        await self._revive_daemon()
        await self._insist(asyncio.Event(), *words)

    async def _kill_command(self) -> None:
        self.process.kill()

    async def _kill_daemon(self) -> None:
        await self.daemon.program.kill()
        self._is_dead = True

    async def _revive_daemon(self) -> None:
        """Start the daemon again, as systemd would, if it was killed. It may be killed again as soon as it leads."""
        if self._is_dead:
            self._is_dead = False
            self.daemon.program.start()

        async def leads() -> bool:
            return self._is_dead or ((await self.daemon.page("/readyz"))[0] == 200 and await self.daemon.leads())

        await wait_until(leads, what="the daemon leads")

    async def _insist(self, fired: asyncio.Event, *words: str) -> None:
        """Run the command until it is cut in on, or succeeds; then it is the daemon that is yet to be cut in on."""
        code, output = -1, ""
        for _ in range(30):
            if fired.is_set() or code == 0:
                break
            code, output = await self.command(*words, "--patience", "20", through=True)
        assert fired.is_set() or code == 0, output
        if self.proxy.waits:
            await wait_until(fired.is_set, what="the step is reached")

    async def reach(self, replicas: int) -> None:
        """Wait until there are so many replicas, and they are ready."""

        async def reached() -> bool:
            found = await self.kube.client.get(self.deployment)
            return (found["spec"]["replicas"], found["status"].get("readyReplicas")) == (replicas, replicas)

        await wait_until(reached, within=40, what=f"there are {replicas}")

    def writers(self) -> list[str]:
        """Who has set the count, in order, as the API server's audit log says."""
        return [
            entry["user"]["username"]
            for entry in self.kube.plane.audit()
            if entry["responseStatus"]["code"] == 200
            and [entry["objectRef"].get(key) for key in ("namespace", "resource", "name", "subresource")]
            == [self.namespace, "deployments", "web", "scale"]
        ]

    @asynccontextmanager
    async def there_and_back(self) -> AsyncIterator[None]:
        """The workload changes hands and back: each count comes once, and is written once, by who wants it."""
        before, self.counts.steps[:] = len(self.writers()), [(0.0, THEIRS)]
        yield
        await wait_until(lambda: len(self.writers()) >= before + 2, what="the audit log has what was written")
        assert self.writers()[before:] == [USER, CONTROLLER_MANAGER]
        assert self.counts.counts == [THEIRS, OURS, THEIRS]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def scene(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """A Deployment that the genuine HPA controller scales, and a daemon whose policy acts, and yields."""
    made = await kube.client.create("/api/v1/namespaces", {"metadata": {"generateName": "takeover-"}})
    namespace, folder = made["metadata"]["name"], tmp_path_factory.mktemp("takeover")
    kube.loads.set_load(namespace, "web", cpu=0.19)
    async with (
        shipped_rights(kube.plane, USER, namespace) as rights,
        granted_from(kube.plane, FOLDER / "takeover.yaml", USER, namespace),
        Between(kube.plane) as proxy,
    ):
        through = proxy.kubeconfig(USER, folder)
        async with running(folder, through, namespace, {"web": POLICY.format(namespace=namespace)}) as daemon:
            scene = Scene(kube, namespace, daemon, proxy, (rights.kubeconfig, through))
            await kube.client.apply([autoscaler("web", QUICKLY), twin("web")], namespace)
            watching = asyncio.create_task(follow(kube.client, namespace, {"web": scene.counts}))
            await scene.reach(THEIRS)
            yield scene
            watching.cancel()
    await kube.client.delete(f"/api/v1/namespaces/{namespace}")


# A command whose daemon dies goes on as far as it needs none: to its end, once the HPA is being stopped.
BACK = ["fence", "restore", "unfence"]
THERE = ["fence", "stop", "forget", "unfence"]
KILLS = [
    pytest.param("", [], [], "before", id="undisturbed"),
    pytest.param("command", THERE, BACK, "before", id="command before each write"),
    pytest.param("command", THERE, BACK, "after", id="command after each write"),
    pytest.param("daemon", ["fence", "unfence"], ["restore"], "before", id="daemon before some writes"),
    pytest.param("daemon", ["stop", "scale"], ["fence", "unfence"], "after", id="daemon after the others"),
]


@pytest.mark.parametrize(("victim", "there", "back", "moment"), KILLS)
async def test_there_is_one_writer_whoever_is_killed(
    scene: Scene, victim: str, there: list[str], back: list[str], moment: Moment
) -> None:
    spec = (await scene.kube.client.get(scene.hpa))["spec"]
    async with scene.there_and_back():
        await scene.change_hands(there, moment, victim)
        await scene.reach(OURS)
        await scene.change_hands(back, moment, victim, "--back")
        await scene.reach(THEIRS)
    assert (await scene.kube.client.get(scene.hpa))["spec"] == spec


async def test_an_hpa_applied_again_is_told_of_and_mended(scene: Scene) -> None:
    """`kubectl apply` gives it its bounds back, and leaves both directions Disabled."""
    client, workload = scene.kube.client, f"{scene.namespace}/Deployment/web"
    spec = (await client.get(scene.hpa))["spec"]

    async def told() -> str:
        found = scene.daemon.explained(workload)["decision"]
        return f"{found['verdict']}: {found['message']}" if found.get("reason") == "HalfStopped" else ""

    async with scene.there_and_back():
        assert (await scene.command())[0] == 0
        await scene.reach(OURS)
        await client.patch(scene.hpa, {"spec": {key: spec[key] for key in ("minReplicas", "maxReplicas")}})
        held = await wait_until(told, what="it is half stopped")
        assert held.startswith("hold: HorizontalPodAutoscaler web (half stopped) only moves the count into its bounds")
        code, output = await scene.command()
        assert (code, output.splitlines()[-1]) == (0, (
            f"elasticd scales {workload}, {OURS} -> {OURS} replicas; HorizontalPodAutoscaler web is stopped"
        ))  # fmt: skip
        assert (await scene.command("--back"))[0] == 0
        await scene.reach(THEIRS)
    assert (await client.get(scene.hpa))["spec"] == spec


async def test_an_idle_policy_after_a_takeover_is_told_of(scene: Scene) -> None:
    policies = scene.daemon.folder / "policies" / "web.toml"
    before = policies.read_text()
    line = f"no policy of this daemon acts for {scene.namespace}/Deployment/web, whose HPA was stopped by takeover"

    async def told(tells: bool) -> bool:
        faults = (await scene.daemon.status())["faults"]
        return [one.startswith(line) for one in faults] == [True] * tells

    async with scene.there_and_back():
        assert (await scene.command())[0] == 0
        await scene.reach(OURS)
        assert await told(tells=False)
        policies.write_text(before.replace('mode = "act"', 'mode = "observe"'))
        await wait_until(partial(told, tells=True), what="nobody scales")
        assert scene.daemon.program.log.read_text().count(f"WARNING {line}") == 1
        assert (await scene.command("--back"))[0] == 0
        await scene.reach(THEIRS)
        await wait_until(partial(told, tells=False), what="the HPA scales again")
    policies.write_text(before)

    async def acts() -> bool:
        return [decision["mode"] for decision in (await scene.daemon.status())["decisions"]] == ["act"]

    await wait_until(acts, what="the policy has decided, and acts again")


async def roll_back(scene: Scene) -> JSON:
    """Roll the Deployment out anew and back, as `kubectl rollout undo` does: its annotations become those that the
    ReplicaSet has kept, whose pods it has again."""
    client, path = scene.kube.client, scene.deployment
    sets = await client.list(path.replace("deployments/web", "replicasets"))
    (former,) = [each for each in sets if each["spec"]["replicas"]]
    await client.patch(path, {"spec": {"template": {"metadata": {"annotations": {"next": "true"}}}}})

    async def rolled_out() -> bool:
        status, meta = (await client.get(path))["status"], (await client.get(path))["metadata"]
        counts = [status.get(key) for key in ("replicas", "updatedReplicas", "readyReplicas")]
        return status.get("observedGeneration") == meta["generation"] and len(set(counts)) == 1

    await wait_until(rolled_out, what="it is rolled out")
    template = former["spec"]["template"]
    del template["metadata"]["labels"]["pod-template-hash"]
    undo = [
        {"op": "replace", "path": "/metadata/annotations", "value": former["metadata"]["annotations"]},
        {"op": "replace", "path": "/spec/template", "value": template},
    ]
    undone = await client.patch(path, undo, kind="json", fieldManager="kubectl")
    await wait_until(rolled_out, what="it is rolled back")
    return undone["metadata"]["annotations"]


@pytest.mark.since("1.36", "1.20 calls it that of other managers too")
async def test_a_fence_that_a_rollback_brought_back_stops_nobody(scene: Scene) -> None:
    """Neither the daemon nor the command takes it for its own: the workload changes hands back and again."""

    def knows() -> bool:
        return not scene.daemon.explained(f"{scene.namespace}/Deployment/web")["decision"].get("blind")

    async def change_hands(*words: str) -> None:
        await wait_until(knows, what="what is needed is known, also of new pods")
        scene.proxy.passed.clear()
        code, output = await scene.command(*words, through=True)
        assert code == 0, output
        assert "fence" in scene.proxy.passed, "it is written anew"

    for is_rolled_back in (False, True):
        if is_rolled_back:
            assert FENCE in await roll_back(scene)
        async with scene.there_and_back():
            await change_hands()
            await scene.reach(OURS)
            if not is_rolled_back:
                assert FENCE in await roll_back(scene)
            await change_hands("--back")
            await scene.reach(THEIRS)


async def test_what_is_done_already_is_said(scene: Scene) -> None:
    said = f"HorizontalPodAutoscaler web scales {scene.namespace}/Deployment/web already\n"
    assert await scene.command("--back") == (0, said)


async def test_a_pause_is_seen_with_who_and_why(scene: Scene) -> None:
    async def limited() -> str:
        explained = scene.daemon.explained(f"{scene.namespace}/Deployment/web")
        return "".join(limit["message"] for limit in explained["decision"]["limits"] if limit["reason"] == "Frozen")

    code, output = await scene.command("--for", "1h", "--direction", "down", "--why", "the sale", verb="pause")
    assert code == 0, output
    seen = await wait_until(limited, what="it is paused")
    assert seen.startswith("the workload is annotated elasticd.io/freeze: down; until ")
    assert seen.endswith("; the sale")
    assert " by " in seen
    code, output = await scene.command(verb="resume")
    assert code == 0, output

    async def resumed() -> bool:
        return not await limited()

    await wait_until(resumed, what="it is resumed")


@pytest.mark.parametrize(
    ("owner", "what", "spec"),
    [
        pytest.param("kustomize-controller", "hpa", {"maxReplicas": 20}, id="Flux owns the HPA"),
        pytest.param("argocd-controller", "deployment", {"replicas": THEIRS}, id="Argo CD owns the count"),
    ],
)
async def test_what_others_would_write_again_is_refused(scene: Scene, owner: str, what: str, spec: JSON) -> None:
    client, path = scene.kube.client, getattr(scene, what)
    found = await client.get(path)
    body = {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": "web"}}

    async def apply(body: JSON) -> None:
        params = {"fieldManager": owner, "force": "true"}
        await client.request("PATCH", path, body=body, params=params, content_type="application/apply-patch+yaml")

    await apply({**body, "spec": spec})
    code, output = await scene.command()
    workload = f"the count of {scene.namespace}/Deployment/web"
    assert (code, output) == (69, (
        f"{'HorizontalPodAutoscaler web' if what == 'hpa' else workload}: must not be owned by {owner}, is: "
        "it would write it again: let it leave that alone first\n"
    ))  # fmt: skip
    await apply(body)


CRD: JSON = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject"},
        "versions": [{
            "name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }],
    },
}  # fmt: skip


async def keda(scene: Scene, path: str) -> None:
    """What KEDA does with its HPA: it goes while the ScaledObject is paused, whose status says so."""
    client, hpa = scene.kube.client, autoscaler("web", QUICKLY)
    while True:
        scaled = await client.get(path)
        paused = (scaled["metadata"].get("annotations") or {}).get("autoscaling.keda.sh/paused") == "true"
        if paused:
            with contextlib.suppress(ApiError):
                await client.delete(scene.hpa)
        else:
            owner = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web"}
            meta = {"name": "web", "ownerReferences": [{**owner, "uid": scaled["metadata"]["uid"]}]}
            await client.apply([{**hpa, "metadata": meta}], scene.namespace)
        body = {"status": {"conditions": [{"type": "Paused", "status": str(paused)}]}}
        await client.request("PATCH", f"{path}/status", body=body, content_type="application/merge-patch+json")
        await asyncio.sleep(0.2)


async def test_a_scaled_object_is_paused_and_resumed(scene: Scene) -> None:
    client = scene.kube.client
    path = f"/apis/keda.sh/v1alpha1/namespaces/{scene.namespace}/scaledobjects"
    await client.create(CRDS, CRD)
    spec = {"scaleTargetRef": {"name": "web"}, "triggers": []}
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "web"}, "spec": spec}
    try:
        await wait_until(lambda: client.create(path, body), what="there are ScaledObjects")
        controller = asyncio.create_task(keda(scene, f"{path}/web"))
        await wait_until(lambda: client.get(scene.hpa), what="it has an HPA")
        async with scene.there_and_back():
            await scene.change_hands([], "before", "")
            await scene.reach(OURS)
            await scene.change_hands([], "before", "", "--back")
            await scene.reach(THEIRS)
        controller.cancel()
        scaled = await client.get(f"{path}/web")
        assert "autoscaling.keda.sh/paused" not in scaled["metadata"].get("annotations", {})
    finally:
        await client.delete(f"{CRDS}/{CRD['metadata']['name']}")
