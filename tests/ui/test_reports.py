"""`explain pod` and `moves` as their users see them."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.base.errors import ConfigError, UnavailableError, near
from elasticd.config import HttpSettings
from elasticd.model.moves import Underway
from elasticd.model.records import Decision
from elasticd.model.reports import PodFound, PodStatus, PoolAbout, StatusReport
from elasticd.model.workload import Limit, Ref
from elasticd.ui import remote, reports
from elasticd.ui.names import pod_of
from tests.kit.daemons import called
from tests.kit.pools import NOW
from tests.ui.test_journaled import FIRST, PLACED, WEB, came, journal, stays

POOL = PoolAbout("pool", "act", "elasticd")
SEEN = PodStatus(NOW, NOW, leading=True, pools=(POOL,), inhabited=True)


@pytest.mark.parametrize(
    ("words", "pod"),
    [
        pytest.param(["pod", "shop/web"], "shop/web", id="as the command has it"),
        pytest.param(["Pods", "shop/web"], "shop/web", id="in the plural"),
        pytest.param(["shop/Pod/web"], "shop/web", id="as the daemon prints it"),
        pytest.param(["pod", "shop/Pod/web"], "shop/web", id="both"),
        pytest.param(["shop/Deployment/web"], None, id="a workload"),
        pytest.param(["shop/Deployment/web", "more"], None, id="a workload and more"),
        pytest.param(["shop/web"], None, id="nothing that could be told"),
    ],
)
def test_a_pod_is_named_in_either_form(words: list[str], pod: str | None) -> None:
    assert pod_of(words) == pod


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["pod", "web"], "web", id="without namespace"),
        pytest.param(["pod"], "", id="without name"),
        pytest.param(["pod", "p/"], "p/", id="no name"),
        pytest.param(["pod", "/high"], "/high", id="no namespace"),
        pytest.param(["pod", "/"], "/", id="neither"),
        pytest.param(["pod", "a/b/c"], "a/b/c", id="too much"),
        pytest.param(["pod", "a/b", "c"], "a/b c", id="a second one"),
        pytest.param(["/Pod/x"], "/Pod/x", id="no namespace, as the daemon prints it"),
        pytest.param(["shop/Pod/"], "shop/Pod/", id="no name, as the daemon prints it"),
        pytest.param(["pod", "p/hi\udcff"], "p/hi\\udcff", id="no text"),
        pytest.param(["pod", "hi\x1b[31m"], "hi\\x1b[31m", id="an escape"),
    ],
)
def test_what_names_no_pod_is_one_line(words: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pod_of(words)
    assert str(caught.value) == f'POD: must be NAMESPACE/NAME, is "{told}"'


@pytest.mark.parametrize("words", [["pod/high"], ["po/high"], ["POD", "high"]], ids=" ".join)
def test_a_pod_of_a_namespace_is_named_as_for_kubectl(words: list[str]) -> None:
    assert pod_of(words, "shop") == "shop/high"


@pytest.mark.parametrize(
    ("name", "known", "told"),
    [
        pytest.param("shop/wep", "shop/web", "shop/web", id="a letter"),
        pytest.param("shop/wbe", "shop/web", "shop/web", id="two changed about"),
        pytest.param("Shop/web", "shop/web", "shop/web", id="case"),
        pytest.param("shopp/web", "shop/web", "shop/web", id="the namespace"),
        pytest.param("shop/web-000019", "shop/web-000001", "shop/web-000001", id="a number"),
        pytest.param("averylongnamespace/x", "averylongnamespace/y", "", id="the namespace alone is alike"),
        pytest.param("a/other", "a/orphan", "", id="another word"),
        pytest.param("shop/web-7d4b9c-xyz12", "shop/web-7d4b9c-qwert", "", id="another of the same controller"),
        pytest.param("shop/web", "shop/Deployment/web", "", id="another form"),
    ],
)
def test_only_close_names_are_proposed(name: str, known: str, told: str) -> None:
    assert near(name, [known]) == (f', did you mean "{told}"?' if told else "")


class Daemon:
    """What a daemon would answer, and a config that names it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder, SEEN
        self.in_flight: list[Underway] = []
        self.unfit = self.left_alone = self.unread = ""
        self.stale: tuple[str, ...] = ()
        (folder / "policies").mkdir()
        cluster = '[cluster]\ntype = "simulated"\nnodes = [{ name = "n", cpu = "1", memory = "1Gi" }]\n'
        self.config = folder / "elasticd.toml"
        self.config.write_text(f'policies = "policies"\nstate = "state"\n{cluster}')

    def pod(self, http: HttpSettings, pod: str) -> PodStatus:
        return self.seen

    def unready(self, http: HttpSettings) -> str:
        return self.unfit

    def moves(self, http: HttpSettings) -> remote.InFlight:
        return remote.InFlight(self.in_flight, self.left_alone, self.unread, self.stale)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    made = Daemon(tmp_path)
    monkeypatch.setattr(remote, "unready", made.unready)
    monkeypatch.setattr(remote, "pod", made.pod)
    monkeypatch.setattr(remote, "moves", made.moves)
    return made


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    def unanswered(http: HttpSettings, pod: str) -> PodStatus:
        raise UnavailableError("http://127.0.0.1:9464: must be a running elasticd, is not: Connection refused")

    monkeypatch.setattr(remote, "unready", lambda _: "")
    monkeypatch.setattr(remote, "pod", unanswered)
    return Daemon(tmp_path)


def test_what_is_decided_is_reported_with_where_the_pod_is(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    journal(running.folder, PLACED, came(1, PLACED))
    running.seen = replace(SEEN, found=PodFound("uid-web", "elasticd", node="a", policy="pool"))
    code, out, err = called(capsys, "explain", "pod", "shop/web", "--config", running.config)
    assert (code, err) == (0, "")
    assert out.splitlines()[1:3] == ["bind to a: Placed", "now: it is on a"]


def test_a_pod_that_is_only_moved_has_been_decided_about(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    journal(running.folder, stays(0))
    code, out, _ = called(capsys, "explain", "shop/Pod/web", "--config", running.config)
    assert code == 0
    assert out.splitlines()[1:3] == [
        "should leave a: Drain; stays: NoOtherNode, no room",
        "now: it is gone: no pod of this name waits or runs",
    ]


def test_a_machine_is_told_all(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    journal(running.folder, PLACED, came(1, PLACED), FIRST, came(61, FIRST, "refused", "Disturbed"))
    _, out, _ = called(capsys, "explain", "pod", "shop/web", "--config", running.config, "--json")
    said = json.loads(out)
    assert (said["decision"]["id"], [one["result"] for one in said["outcomes"]]) == ("pool:web@0", ["done"])
    assert (said["moving"]["id"], [one["reason"] for one in said["moved"]]) == ("pool:web@60", ["Disturbed"])
    assert said["seen"]["leading"]


def test_a_running_daemon_says_why_a_pod_has_no_decision(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    folder = journal(running.folder, PLACED)
    running.seen = replace(SEEN, found=PodFound("u", "elastcd"))
    code, out, err = called(capsys, "explain", "pod", "shop/other", "--config", running.config)
    why = 'its schedulerName is "elastcd", did you mean "elasticd"?'
    assert (code, out, err) == (69, "", f"{folder}: the journal has no decision about pod shop/other: {why}\n")


def test_reports_without_a_daemon_say_they_use_only_the_journal(
    capsys: pytest.CaptureFixture[str], stopped: Daemon
) -> None:
    folder = journal(stopped.folder, PLACED)
    alone = "told from the journal alone: http://127.0.0.1:9464: must be a running elasticd, is not: Connection refused"
    _, out, _ = called(capsys, "explain", "pod", "shop/web", "--config", stopped.config)
    assert out.splitlines()[2] == alone
    _, _, err = called(capsys, "explain", "pod", "shop/wep", "--config", stopped.config)
    no = f'{folder}: the journal has no decision about pod shop/wep, did you mean "shop/web"?'
    assert err == f"{no}; {alone}\n"


def test_a_journal_that_is_not_the_daemons_is_told_alone(
    capsys: pytest.CaptureFixture[str], running: Daemon, tmp_path: Path
) -> None:
    other = journal(tmp_path / "other", PLACED)
    _, out, _ = called(capsys, "explain", "pod", "shop/web", "--config", running.config, "--state", other)
    assert f"told from the journal alone: {other} is not the state folder of {running.config}" in out


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        pytest.param("poll", ', did you mean "pool"?', id="misspelt"),
        pytest.param("drain", "; there are some of pool", id="another"),
    ],
)
def test_a_policy_that_has_not_decided_is_named(
    capsys: pytest.CaptureFixture[str], running: Daemon, policy: str, told: str
) -> None:
    folder = journal(running.folder, PLACED)
    _, _, err = called(capsys, "explain", "pod", "shop/web", "--config", running.config, "--policy", policy)
    assert err == f'{folder}: the journal has no decision of policy "{policy}" about pod shop/web{told}\n'


def test_names_that_are_printed_back_cannot_write_to_the_terminal(
    capsys: pytest.CaptureFixture[str], running: Daemon
) -> None:
    journal(running.folder, PLACED)
    for words in (("pod", "p/hi\x1b[31mgh"), ("pod", "p/a\nb"), ("a/\x1b[1m/b",), ("\x1b[1m",)):
        _, _, err = called(capsys, "explain", *words, "--config", running.config)
        assert err.count("\n") == 1
        assert "\x1b" not in err


def test_moves_lists_who_is_held_back_and_why(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    other = Ref("shop", "Pod", "other", "v1")
    journal(running.folder, FIRST, came(61, FIRST, "refused", "Disturbed", message="1 pod went"), stays(62, pod=other))
    code, out, err = called(capsys, "moves", "--config", running.config)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:2] == ["no move is in flight", "held back: 2 pods (1 Disturbed, 1 NoOtherNode)"]
    assert lines[3].startswith("pool shop/web a drain: Drain Disturbed 1 pod went ")
    assert lines[4].startswith("pool shop/other a drain: Drain NoOtherNode no room ")
    _, out, _ = called(capsys, "moves", "--config", running.config, "--json")
    assert [one["reason"] for one in json.loads(out)["held_back"]] == ["Disturbed", "NoOtherNode"]


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        pytest.param({"pools": ()}, "", id="its policy is not in force"),
        pytest.param(
            {"leading": False},
            "what is held back is told by the elasticd that leads, and this one does not\n",
            id="another daemon leads",
        ),
    ],
)
def test_what_does_not_hold_here_is_not_listed(
    capsys: pytest.CaptureFixture[str], running: Daemon, changes: dict[str, object], note: str
) -> None:
    journal(running.folder, stays(0))
    running.seen = replace(SEEN, **changes)
    assert called(capsys, "moves", "--config", running.config) == (0, "no move is in flight\n", note)


def test_moves_warns_of_records_that_do_not_count(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    journal(running.folder, PLACED)
    running.left_alone = "ConfigMaps in home that do not count"
    assert called(capsys, "moves", "--config", running.config)[2] == "ConfigMaps in home that do not count\n"
    code, text, error = called(capsys, "moves", "--json", "--config", running.config)
    assert (code, error) == (0, "")
    assert text.endswith('"left_alone":"ConfigMaps in home that do not count","unread":"","stale":[]}\n')


def test_moves_says_first_what_is_not_current(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    journal(running.folder, PLACED)
    running.stale, running.left_alone = ("Node: not current since then",), "ConfigMaps in home that do not count"
    assert called(capsys, "moves", "--config", running.config)[2].splitlines() == [*running.stale, running.left_alone]
    code, text, error = called(capsys, "moves", "--json", "--config", running.config)
    assert (code, json.loads(text)["stale"], error) == (0, [*running.stale], "")


UNREAD = "what has yet to be recreated cannot be looked for: 403 Forbidden: may not"


def test_moves_says_that_records_cannot_be_read(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    journal(running.folder, PLACED)
    running.unread = UNREAD
    assert called(capsys, "moves", "--config", running.config)[1:] == (f"{UNREAD}\n", "")
    running.in_flight = [Underway(WEB, "uid-web", "surge", "wait", NOW)]
    assert called(capsys, "moves", "--config", running.config)[2] == f"{UNREAD}\n"


def test_moves_and_explain_warn_of_an_unwritten_journal(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    journal(running.folder, stays(0))
    running.unfit = "the journal has not been written since 2026-11-22 02:41:07 UTC: No space left on device"
    for command in (["moves"], ["explain", "pod", "shop/web"]):
        code, out, err = called(capsys, *command, "--config", running.config)
        assert (code, err) == (0, f"elasticd is not ready: {running.unfit}\n")
        assert "NoOtherNode" in out


def test_one_that_is_being_moved_is_not_held_back(capsys: pytest.CaptureFixture[str], running: Daemon) -> None:
    journal(running.folder, stays(0))
    running.in_flight = [Underway(WEB, "uid-web", "surge", "wait", NOW)]
    assert "held back" not in called(capsys, "moves", "--config", running.config)[1]


def test_a_journal_that_is_elsewhere_leaves_what_is_in_flight(
    capsys: pytest.CaptureFixture[str], running: Daemon
) -> None:
    code, out, err = called(capsys, "moves", "--config", running.config)
    assert (code, out) == (0, "no move is in flight\n")
    assert err.startswith(f"what is held back is not known: {running.folder}/state: ")


def made(name: str, current: int, replicas: int) -> Decision:
    """A decision about a Deployment."""
    return Decision("d", NOW, "p", Ref("shop", "Deployment", name), "act", current, replicas, "keep", "Why", "")


WAITS = Limit("ScaleDownStabilized", "until fewer have been wanted for 3 s", 6, bound=True)
UP_WAITS = Limit("ScaleUpStabilized", "recent recommendations were lower", None, 6, bound=True)


@pytest.mark.parametrize(
    ("wish", "limits", "would_be"),
    [
        pytest.param(1, (WAITS,), 1, id="a fall that waits"),
        pytest.param(9, (UP_WAITS,), 9, id="a growth that waits"),
        pytest.param(1, (WAITS, Limit("ScaleDownLimit", "", 4)), 4, id="its first step"),
        pytest.param(1, (WAITS, Limit("Frozen", "", 6, 6, bound=True)), None, id="it is frozen all the same"),
        pytest.param(6, (replace(WAITS, bound=False),), None, id="nothing is wanted"),
        pytest.param(None, (WAITS,), None, id="nothing is known"),
    ],
)
def test_a_preview_takes_windows_as_over(
    monkeypatch: pytest.MonkeyPatch, wish: int | None, limits: tuple[Limit, ...], would_be: int | None
) -> None:
    """It has no history: a fall would never be shown, as each waits."""
    monkeypatch.setattr(remote, "status", lambda _: StatusReport(True, True, False, (made("web", 6, 6),)))
    preview = reports.preview([replace(made("web", 6, 6), wish=wish, limits=limits)], HttpSettings())
    assert [row.would_be for row in preview.changes] == ([] if would_be is None else [would_be])


@pytest.mark.parametrize("leader", ["a-0", ""])
def test_a_preview_asks_no_standby_who_would_come(monkeypatch: pytest.MonkeyPatch, leader: str) -> None:
    """It may never have decided, or long ago."""
    standby = StatusReport(True, False, False, (made("old", 5, 5),), leader=leader)
    monkeypatch.setattr(remote, "status", lambda _: standby)
    preview = reports.preview([made("web", 2, 3), made("new", 1, 1)], HttpSettings())
    assert [(row.workload.name, row.governed) for row in preview.changes] == [("web", "")]
    who = leader or "the one that does"
    told = f"which workloads would newly be governed is not known: this daemon does not lead; ask {who}"
    assert preview.note == told


def test_a_preview_names_who_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    governed = StatusReport(True, True, False, (made("web", 2, 2), made("old", 5, 5)))
    monkeypatch.setattr(remote, "status", lambda _: governed)
    preview = reports.preview([made("web", 2, 3), made("new", 1, 1)], HttpSettings())
    rows = [(row.workload.name, row.now, row.would_be, row.governed) for row in preview.changes]
    assert rows == [("web", 2, 3, ""), ("new", 1, 1, "new"), ("old", 5, 5, "no longer")]
    assert (preview.workloads, preview.note) == (2, "")
