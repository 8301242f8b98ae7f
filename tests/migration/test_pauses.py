"""`elasticd pause` and `resume`: what they write, and what they refuse."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.decision.workload.vetoes import annotated_freeze
from elasticd.model.records import Decision
from elasticd.model.reports import StatusReport
from elasticd.ui import pauses
from tests.kit.daemons import called
from tests.kit.records import decision
from tests.migration.api_servers import JsonHandler, served

FREEZE = "elasticd.io/freeze"
WEB, API, OTHER = "shop/deployments/web", "shop/deployments/api", "test/deployments/web"
CHESS = "shop/games/chess"
CPU = '{ type = "Resource", resource = "cpu", utilization = 60 }'
POLICY = f'replicas = {{ max = 9 }}\nstrategy = [{{ type = "hpa", metrics = [{CPU}] }}]\n'
NAMES = f'workload = {{ namespace = "shop", name = "web" }}\n{POLICY}'
SELECTS = f'select = {{ namespaces = ["*"], labels = {{ app = "web" }} }}\n{POLICY}'
NOWHERE = f'select = {{ namespaces = ["shop", "test"], labels = {{ app = "none" }} }}\n{POLICY}'


def serving(plural: str, kind: str) -> dict[str, Any]:
    """What a group and version serve: one kind, which can be scaled."""
    scale = {"name": f"{plural}/scale", "kind": "Scale", "namespaced": True}
    return {"kind": "APIResourceList", "resources": [{"name": plural, "kind": kind, "namespaced": True}, scale]}


def group(name: str) -> dict[str, Any]:
    version = {"groupVersion": name, "version": "v1"}
    return {"name": name.partition("/")[0], "versions": [version], "preferredVersion": version}


DISCOVERY = {
    "/version": {"gitVersion": "v1.36.2"},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [*map(group, ("apps/v1", "down.io/v1", "a.io/v1", "b.io/v1")), {"name": "old.io"}],
    },
    "/apis/apps/v1": serving("deployments", "Deployment"),
    "/apis/a.io/v1": {
        "kind": "APIResourceList",
        "resources": serving("games", "Game")["resources"] + serving("toys", "Toy")["resources"],
    },
    "/apis/b.io/v1": serving("toys", "Toy"),
}


class Workloads(JsonHandler):
    """An API server with three Deployments and a custom resource, and the status page of a daemon that has decided."""

    def __init__(self, frozen: dict[str, str], decisions: Sequence[Decision], *arguments: Any) -> None:
        self.frozen, self.decisions = frozen, decisions
        super().__init__(*arguments)

    def get(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/status" and self.decisions:
            report = StatusReport(True, True, False, tuple(self.decisions))
            self.answer(200, json.loads(msgspec.json.encode(report)))
        elif path.endswith("/deployments"):
            space = path.removesuffix("/deployments").rpartition("/")[2]
            named = [name for name in (WEB, API, OTHER) if space in ("v1", name.partition("/")[0])]
            self.answer(200, {"kind": "DeploymentList", "metadata": {}, "items": [manifest(name) for name in named]})
        else:
            self.answer(200 if path in DISCOVERY else 503, DISCOVERY.get(path, {"kind": "Status"}))

    def patch(self, body: Any) -> None:
        name = self.path.partition("/namespaces/")[2]
        if name not in (WEB, API, OTHER, CHESS):
            self.answer(404, {"kind": "Status", "reason": "NotFound", "message": "not found"})
            return
        self.frozen.pop(name, None)
        if (text := body["metadata"]["annotations"][FREEZE]) is not None:
            self.frozen[name] = text
        self.answer(200, manifest(name))


def manifest(name: str) -> dict[str, Any]:
    """An object of NAMESPACE/PLURAL/NAME, labelled by its name; the last Deployment changes hands."""
    namespace, _, own = name.split("/")
    fence = (
        {"annotations": {"elasticd.io/fenced": "takeover from HorizontalPodAutoscaler web"}} if name == OTHER else {}
    )
    return {"kind": "Object", "metadata": {"namespace": namespace, "name": own, "labels": {"app": own}, **fence}}


class Site:
    """The command on a cluster: `frozen` has the annotations that are there."""

    def __init__(self, config: Path, frozen: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
        self.config, self.frozen, self._capsys = config, frozen, capsys

    def run(self, *words: str) -> tuple[int, str]:
        """The exit code, and what was printed, without who did it."""
        code, out, err = called(self._capsys, *words, "--config", self.config)
        return code, "".join(line.partition("; by ")[0].rstrip() + "\n" for line in (out + err).splitlines())


@contextmanager
def site(
    folder: Path, capsys: pytest.CaptureFixture[str], *decisions: Decision, cluster: str = "", **policies: str
) -> Iterator[Site]:
    (folder / "policies").mkdir()
    for name, text in policies.items():
        (folder / "policies" / f"{name}.toml").write_text(text)
    frozen: dict[str, str] = {}
    with served(partial(Workloads, frozen, decisions), folder, cluster) as config:
        yield Site(config, frozen, capsys)


@pytest.mark.parametrize(
    ("until", "why", "parts"),
    [
        pytest.param(None, "", ["down", "by"], id="who alone"),
        pytest.param(1e9, "a sale; big", ["down", "until 2001-09-09T01:46:40.000Z", "by", "a sale, big"], id="all"),
    ],
)  # fmt: skip
def test_a_pause_notes_until_when_who_and_why(until: float | None, why: str, parts: list[str]) -> None:
    noted = pauses.note("down", until, why).split("; ")
    assert ["by" if part.startswith("by ") else part for part in noted] == parts


WHYS = st.one_of(st.text(), st.builds("{} {}".format, st.sampled_from(["until", "by", "; until", "; by"]), st.text()))


@given(way=st.sampled_from(["up", "down", "both"]), until=st.sampled_from([None, 1e9, 2e9]), why=WHYS)
@example(way="down", until=None, why="until the sale is over")
@example(way="down", until=2e9, why="until 2001-09-09T01:46:40Z")
def test_whatever_its_reason_a_pause_is_read_as_written(way: str, until: float | None, why: str) -> None:
    read = annotated_freeze({FREEZE: pauses.note(way, until, why)}, 1.5e9)
    assert read == ("" if until == 1e9 else way)


@pytest.mark.parametrize("user", ["anna", "Anna K", "shop; sale", "shop\\anna", "anna@example.com"])
def test_whoever_pauses_the_reason_stays_a_reason(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", user)
    assert annotated_freeze({FREEZE: pauses.note("down", None, "until the sale is over")}, 1.5e9) == "down"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param([], "WORKLOAD: must be given, or else --policy, neither is", id="nothing"),
        pytest.param(["a/b/c", "--policy", "web"], "WORKLOAD: must be given, or else --policy, both are", id="both"),
        pytest.param(
            ["--policy", "web", "--for", "soon"], '--for: must be a duration such as 30m or 2h, is "soon"', id="time"
        ),
        pytest.param(
            ["--policy", "web", "--for", "99999999999h"],
            '--for: must be a duration such as 30m or 2h, is "99999999999h"',
            id="an end that no calendar has",
        ),
    ],
)
def test_wrong_arguments_of_a_pause_are_told(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert called(capsys, "pause", *words) == (78, "", f"{problem}\n")


NO_POLICY = "no policy governs it"


@pytest.mark.parametrize(
    ("words", "name", "written"),
    [
        pytest.param(["shop/Deployment/web"], WEB, "shop/Deployment/web", id="whole"),
        pytest.param(["deploy/web", "-n", "shop"], WEB, "shop/Deployment/web", id="as kubectl has it"),
        pytest.param(["shop/Game/chess"], CHESS, "shop/Game/chess", id="a custom resource"),
        pytest.param(["games", "chess", "-n", "shop"], CHESS, "shop/Game/chess", id="its plural"),
    ],
)
def test_a_named_workload_needs_no_policy_and_no_daemon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], name: str, written: str
) -> None:
    with site(tmp_path, capsys) as there:
        assert there.run("pause", *words) == (0, f"{written}: both\n{written}: {NO_POLICY}\n")
        assert list(there.frozen) == [name]
        assert there.run("resume", *words) == (0, f"{written}: resumed\n")
        assert not there.frozen


def test_resume_tells_that_a_workload_changes_hands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with site(tmp_path, capsys) as there:
        code, printed = there.run("resume", "test/Deployment/web")
    still = (
        "it changes hands, and stands still until `elasticd takeover test/Deployment/web` has ended: elasticd.io/fenced"
    )
    lines = ["test/Deployment/web: resumed", f"test/Deployment/web: {still}: takeover from HorizontalPodAutoscaler web"]
    assert (code, printed.splitlines()) == (0, lines)


@pytest.mark.parametrize(
    ("decisions", "policies", "why"),
    [
        pytest.param([], {"w": NAMES}, "", id="a file names it"),
        pytest.param([], {"w": SELECTS}, "", id="a file selects it"),
        pytest.param([decision(60.0)], {}, "", id="a daemon has decided about it"),
        pytest.param([], {"w": NOWHERE}, NO_POLICY, id="a file selects other labels"),
        pytest.param([], {"w": "no = 1"}, f"{NO_POLICY}, but not all could be read: ", id="a file has a mistake"),
    ],
)
def test_a_pause_says_where_no_policy_governs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], decisions: list[Decision], policies: dict[str, str], why: str
) -> None:
    with site(tmp_path, capsys, *decisions, **policies) as there:
        code, printed = there.run("pause", "shop/Deployment/web")
    first, *more = printed.splitlines()
    assert (code, first, len(more)) == (0, "shop/Deployment/web: both", bool(why))
    assert all(line.startswith(f"shop/Deployment/web: {why}") for line in more)


@pytest.mark.parametrize(
    ("decisions", "cluster", "text", "names"),
    [
        pytest.param([], "", NAMES, [WEB], id="the one it names"),
        pytest.param([], "", SELECTS, [WEB, OTHER], id="those it selects"),
        pytest.param([], "", SELECTS.replace("*", "test"), [OTHER], id="in its namespace"),
        pytest.param([], 'namespaces = ["shop"]', SELECTS, [WEB], id="in a namespace that is watched"),
        pytest.param(
            [],
            'namespaces = ["shop"]',
            SELECTS.replace("*", 'shop", "test'),
            [WEB],
            id="of its namespaces, a watched one",
        ),
        pytest.param([decision(60.0, policy="w")], "", SELECTS, [WEB], id="those it decided about"),
    ],
)
def test_a_policy_means_what_it_governs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    decisions: list[Decision],
    cluster: str,
    text: str,
    names: list[str],
) -> None:
    with site(tmp_path, capsys, *decisions, cluster=cluster, w=text) as there:
        code, printed = there.run("pause", "--policy", "w", "--direction", "up")
        assert (code, NO_POLICY in printed) == (0, False)
        assert list(there.frozen) == names
        assert there.run("resume", "--policy", "w")[0] == 0
        assert not there.frozen


def test_one_that_cannot_be_paused_keeps_no_other_going(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = decision(60.0, policy="w")
    gone = [replace(made, workload=replace(made.workload, name=name)) for name in ("also-gone", "gone")]
    with site(tmp_path, capsys, *gone, made, w=SELECTS) as there:
        code, printed = there.run("pause", "--policy", "w")
        assert (code, list(there.frozen)) == (69, [WEB])
        assert printed.count("must be there, is not") == len(gone)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        pytest.param(
            ["--policy", "gone"],
            69,
            "policy gone: must be a policy about workloads in FOLDER/policies, is not: "
            "name the workload instead, NAMESPACE/KIND/NAME",
            id="no such policy",
        ),
        pytest.param(["--policy", "wrong"], 78, "FOLDER/policies/wrong.toml: no: ", id="a policy with a mistake"),
        pytest.param(
            ["--policy", "empty"], 69, "policy empty: must select a workload, selects none", id="selects none"
        ),
        pytest.param(
            ["shop/Deployment/wep"],
            69,
            'shop/Deployment/wep: must be there, is not, did you mean "shop/Deployment/web"?',
            id="no such workload",
        ),
        pytest.param(
            ["shop/Pod/web"], 69, 'shop/Pod/web: must be of a kind that can be scaled, "Pod" is not', id="no count"
        ),
        pytest.param(
            ["shop/Toy/car"],
            69,
            "shop/Toy/car: must be of one kind, may be any of a.io/v1/Toy, b.io/v1/Toy: "
            "use kubectl annotate, with elasticd.io/freeze",
            id="a kind of two groups",
        ),
        pytest.param(
            ["shop/Job/mail"], 69, "shop/Job/mail: must be a workload, is a set of Jobs: ", id="a set of Jobs"
        ),
    ],
)
def test_what_cannot_be_resumed_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, problem: str
) -> None:
    with site(tmp_path, capsys, web=NAMES, empty=NOWHERE, wrong=f"no = 1\n{SELECTS}") as there:
        ended, printed = there.run("resume", *words)
        assert (ended, printed.count("\n")) == (code, 1)
        assert printed.startswith(problem.replace("FOLDER", str(tmp_path)))
        assert not there.frozen
