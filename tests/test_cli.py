"""The command line as its users see it: words, exit codes, pipes and terminals."""

import json
import os
import pty
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd import __main__ as entry_point
from elasticd.base.shapes import moment
from elasticd.cli import main
from elasticd.journal import Journal, segments
from elasticd.model.workload import Ref
from tests.kit import daemons
from tests.kit.daemons import PATIENCE, called, policy, until, write
from tests.kit.records import WEB, decision, outcome
from tests.kube.processes import free_port


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A journal of a stopped daemon."""
    return journal(tmp_path / "state", decision(60.0, id="1"), replace(outcome(61.0), decision="1"))


def journal(folder: Path, *records: Any) -> Path:
    made = Journal(folder)
    for record in records:
        made.append(record)
    made.close()
    return folder


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.slow
def test_heavy_libraries_are_not_imported_at_start() -> None:
    heavy = {"kubernetes_asyncio", "pyarrow", "scipy"}
    code = f"import sys; from elasticd import cli, registry; registry.discover(); print({heavy!r} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_explain_says_each_item_of_the_decision(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    code, out, err = called(capsys, "explain", "shop/Deployment/web", "--state", state)
    assert (code, err) == (0, "")
    assert set(words(out)) >= {
        "2 -> 3 replicas: Wanted, more",
        "cpu meter fresh 1 0.5 0.0 s 15 s",
        "> hpa 3 Wanted",
        "rate 1 to any yes ScaleUpLimit",
        "AbleToScale True ReadyForNewScale",
        "Action scale 2 -> 3: done (HTTP 200) in 0.100 s",
    }


def test_explain_json_is_the_whole_record(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    code, out, _ = called(capsys, "explain", "shop/Deployment/web", "--state", state, "--json")
    said = json.loads(out)
    assert (code, said["decision"]["id"], said["outcome"]["result"]) == (0, "1", "done")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["shop/Deployment/wbe"], 'about shop/Deployment/wbe, did you mean "shop/Deployment/web"?'),
        (["Shop/deployment/Web"], 'about Shop/Deployment/Web, did you mean "shop/Deployment/web"?'),
        (["x/y/zzzzzzz"], "about x/y/zzzzzzz"),
        (["shop/Deployment/web", "--policy", "shp"], 'of policy "shp" about shop/Deployment/web, did you mean "shop"?'),
    ],
    ids=["a name", "cases", "nothing like it", "a policy"],
)
def test_an_unknown_workload_gives_the_nearest(
    capsys: pytest.CaptureFixture[str], state: Path, arguments: list[str], problem: str
) -> None:
    code, out, err = called(capsys, "explain", *arguments, "--state", state)
    assert (code, out, err) == (69, "", f"{state}: the journal has no decision {problem}\n")


@pytest.mark.parametrize("argument", ["web", "x/y", "a/b/c/d", "", "a//c", "deploy/"])
def test_an_argument_of_another_form_is_refused(capsys: pytest.CaptureFixture[str], state: Path, argument: str) -> None:
    code, _, err = called(capsys, "explain", argument, "--state", state)
    told = "must be NAMESPACE/KIND/NAME, or KIND/NAME with -n NAMESPACE"
    assert (code, err) == (78, f'WORKLOAD: {told}, is "{argument}"\n')


@pytest.mark.parametrize(
    "words",
    [
        ["shop/deploy/web"],
        ["shop/DEPLOYMENT/web"],
        ["deploy/web", "-n", "shop"],
        ["deploy/web"],
        ["deployments.apps/web"],
        ["deployment", "web"],
        ["deploy", "web", "--namespace", "shop"],
        ["shop/deploy/web", "-n", "shop"],
    ],
    ids=" ".join,
)
def test_a_workload_is_named_as_for_kubectl(capsys: pytest.CaptureFixture[str], state: Path, words: list[str]) -> None:
    code, out, err = called(capsys, "explain", *words, "--state", state)
    assert (code, out.split()[0], err) == (0, "shop/Deployment/web", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["shop/web"], ', is "shop/web", did you mean "shop/Deployment/web"?', id="the kind is left out"),
        pytest.param(["deploy/wbe"], ', is "Deployment/wbe", did you mean "Deployment/web"?', id="a misspelt name"),
        pytest.param(["a/deploy/web", "-n", "b"], '-n: must be "a" as in a/deploy/web, is "b"', id="two namespaces"),
    ],
)
def test_a_workload_that_is_named_badly_gives_the_nearest(
    capsys: pytest.CaptureFixture[str], state: Path, words: list[str], told: str
) -> None:
    code, _, err = called(capsys, "explain", *words, "--state", state)
    assert (code, err.endswith(f"{told}\n")) == (78, True), err


def test_a_name_in_several_namespaces_needs_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    twice = [decision(60.0, workload=Ref(space, "Deployment", "web")) for space in ("shop", "test")]
    folder = journal(tmp_path, *twice)
    told = "-n: must be given, for there are shop/Deployment/web, test/Deployment/web\n"
    assert called(capsys, "explain", "deploy/web", "--state", folder) == (78, "", told)
    assert called(capsys, "explain", "deploy/web", "-n", "test", "--state", folder)[0] == 0


def test_kinds_of_others_are_found_in_any_case(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = journal(tmp_path, decision(60.0, workload=Ref("shop", "Rollout", "web", "argoproj.io/v1alpha1")))
    for words in (["rollout/web"], ["shop/rollouts/web"], ["shop/Rollout/web"], ["rollouts.argoproj.io/web"]):
        assert called(capsys, "explain", *words, "--state", folder)[0] == 0, words


ALL = '[select]\nnamespaces = ["shop"]\n[replicas]\nmax = 5\n[[strategy]]\ntype = "hpa"\n'


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        pytest.param(
            "shop/deploy/web",
            "policy web is about it, and no daemon has decided yet: `elasticd status` says whether one runs",
            id="nobody has looked",
        ),
        pytest.param(
            "shop/deploy/other",
            "policy all selects such workloads by their labels, and it may lack its labels, may not be there, or was "
            "not looked at yet",
            id="perhaps selected",
        ),
        pytest.param("test/sts/db", "no policy is about it", id="no policy"),
    ],
)
def test_why_there_is_no_decision_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, workload: str, why: str
) -> None:
    settings = write(tmp_path, web=policy(), all=ALL)
    (tmp_path / "state").mkdir(exist_ok=True)
    code, out, err = called(capsys, "explain", workload, "--config", settings)
    assert (code, out) == (69, "")
    assert err.endswith(f"; {why}\n"), err


@pytest.mark.parametrize("command", ["explain shop/Deployment/web", "status"])
def test_a_state_folder_that_is_not_there_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    code, _, err = called(capsys, *command.split(), "--state", tmp_path / "none")
    assert (code, err) == (69, f"{tmp_path}/none: must be the daemon's state folder, is not there\n")


@pytest.mark.parametrize("name", ['we"b', "we\\b", "wéb", "web\n", "日本", "we b", "<script>", "web\u2028"])
def test_names_that_json_writes_otherwise_are_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    folder = journal(tmp_path, decision(60.0, workload=Ref("shop", "Deployment", name), policy='p"'), decision(61.0))
    code, out, _ = called(capsys, "explain", f"shop/Deployment/{name}", "--state", folder, "--json")
    assert (code, json.loads(out)["decision"]["workload"]["name"]) == (0, name)
    assert called(capsys, "explain", f"shop/Deployment/{name}", "--state", folder, "--policy", 'p"')[0] == 0


def test_explain_shows_the_latest_or_the_requested_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = journal(tmp_path, *[decision(at, policy=name) for at, name in ((1.0, "a"), (2.0, "b"), (3.0, "c"))])
    for more, expected in (([], "c"), (["--policy", "a"], "a"), (["--policy", "b"], "b")):
        _, out, _ = called(capsys, "explain", "shop/Deployment/web", "--state", folder, "--json", *more)
        assert json.loads(out)["decision"]["policy"] == expected


def test_explain_ignores_a_workload_name_in_another_decisions_message(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = decision(61.0, workload=Ref("web", "web", "other"), message="web", policy="web")
    folder = journal(tmp_path, decision(60.0), other)
    _, out, _ = called(capsys, "explain", "shop/Deployment/web", "--state", folder, "--json")
    assert json.loads(out)["decision"]["at"] == "1970-01-01T00:01:00.000Z"


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """A journal in which two policies keep, scale, fail and hold."""
    keep: dict[str, Any] = {"verdict": "keep", "reason": "InRange", "message": "as it should be", "action": None}
    hold: dict[str, Any] = {"verdict": "hold", "reason": "NoSamples", "message": "", "action": None}
    return journal(
        tmp_path / "night",
        decision(60.0, 2, **keep),
        decision(75.0, 2, policy="other", **keep),
        decision(90.0, 2, **keep),
        decision(120.0, id="1"),
        replace(outcome(121.0), decision="1"),
        decision(150.0, None, 3, **hold),
        decision(180.0, None, 3, **hold),
        decision(210.0, 4, 3, id="2"),
        replace(outcome(211.0, 3, 4), decision="2", result="failed", reason="Forbidden"),
        decision(240.0, 4, 3, id="3"),
    )


def test_history_has_a_row_whenever_something_else_was_decided(capsys: pytest.CaptureFixture[str], night: Path) -> None:
    code, out, err = called(capsys, "history", "shop/Deployment/web", "--state", night)
    title, *rows = [line.split(maxsplit=2)[-1] for line in out.splitlines()]
    assert (code, err, title.split()[0]) == (0, "", "policy")
    assert [" ".join(row.split()) for row in rows] == [
        "30 s, 2 x shop 2 2 keep InRange: as it should be -",
        "- other 2 2 keep InRange: as it should be -",
        "- shop 2 -> 3 3 scale Wanted: more done",
        "30 s, 2 x shop 3 - hold NoSamples -",
        "- shop 3 -> 4 4 scale Wanted: more failed Forbidden",
        "- shop 3 -> 4 4 scale Wanted: more -",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(["--from", "100", "--to", "160"], [120.0, 150.0], id="between two times"),
        pytest.param(["--from", "211"], [240.0], id="since a time"),
        pytest.param(["--to", "80"], [60.0, 75.0], id="until a time"),
        pytest.param(["--policy", "other"], [75.0], id="of one policy"),
    ],
)
def test_history_is_of_a_time_and_a_policy(
    capsys: pytest.CaptureFixture[str], night: Path, options: list[str], expected: list[float]
) -> None:
    code, out, _ = called(capsys, "history", "deploy/web", "-n", "shop", "--state", night, "--json", *options)
    assert (code, [row["decision"]["at"] for row in json.loads(out)]) == (0, [moment(at) for at in expected])


@pytest.mark.parametrize("words", [["t/Pod/b1"], ["pod", "t/b1"], ["pod/b1", "-n", "t"]])
def test_history_of_a_pod_refers_to_explain(capsys: pytest.CaptureFixture[str], night: Path, words: list[str]) -> None:
    said = "WORKLOAD: must be a workload, is pod t/b1: `elasticd explain pod t/b1` is about pods\n"
    assert called(capsys, "history", *words, "--state", night) == (78, "", said)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no-such-command"])
    commands = re.findall(r"'([a-z]+)'", capsys.readouterr().err.partition("choose from")[2])
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = re.findall(r"^    ([a-z]+)", capsys.readouterr().out, re.MULTILINE)
    assert "reproduce" in commands
    assert listed == commands


def test_history_in_json_has_the_records_of_each_row(capsys: pytest.CaptureFixture[str], night: Path) -> None:
    _, out, _ = called(capsys, "history", "shop/Deployment/web", "--state", night, "--json")
    first, _, scaled, *_ = json.loads(out)
    assert (first["until"], first["decisions"], first["outcome"]) == (moment(90.0), 2, None)
    assert (scaled["until"], scaled["decisions"], scaled["outcome"]["result"]) == (moment(120.0), 1, "done")


@pytest.mark.parametrize(
    ("at", "expected", "result"),
    [
        pytest.param("120", 120.0, "done", id="when it was made"),
        pytest.param("130", 120.0, "done", id="while it was in force"),
        pytest.param("239.9", 210.0, "failed", id="just before the next"),
        pytest.param("now", 240.0, None, id="now"),
    ],
)
def test_explain_tells_of_the_decision_in_force_at_a_time(
    capsys: pytest.CaptureFixture[str], night: Path, at: str, expected: float, result: str | None
) -> None:
    code, out, _ = called(capsys, "explain", "shop/Deployment/web", "--state", night, "--json", "--at", at)
    said = json.loads(out)
    assert (code, said["decision"]["at"]) == (0, moment(expected))
    assert (said["outcome"] or {}).get("result") == result


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(
            ["explain", "shop/Deployment/web", "--at", "59"],
            "the journal has no decision about shop/Deployment/web at that time: it has some from "
            "1970-01-01T00:01:00.000Z to 1970-01-01T00:04:00.000Z",
            id="before the first",
        ),
        pytest.param(
            ["history", "shop/Deployment/web", "--policy", "other", "--from", "80"],
            "the journal has no decision about shop/Deployment/web at that time: it has some from "
            "1970-01-01T00:01:15.000Z to 1970-01-01T00:01:15.000Z",
            id="after the last of a policy",
        ),
        pytest.param(
            ["history", "shop/Deployment/wep"],
            'the journal has no decision about shop/Deployment/wep, did you mean "shop/Deployment/web"?',
            id="a misspelt name",
        ),
    ],
)
def test_where_nothing_was_decided_one_line_says_when_or_what(
    capsys: pytest.CaptureFixture[str], night: Path, arguments: list[str], problem: str
) -> None:
    assert called(capsys, *arguments, "--state", night) == (69, "", f"{night}: {problem}\n")


def test_a_pod_cannot_be_explained_at_another_time(capsys: pytest.CaptureFixture[str], night: Path) -> None:
    told = called(capsys, "explain", "pod", "shop/web-1", "--state", night, "--at", "60")
    assert told == (78, "", "--at: must be left out for a pod, is given\n")


def test_status_has_the_last_decision_about_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = journal(tmp_path, decision(60.0), decision(90.0, 5, 4), decision(30.0, policy="a"))
    _, out, _ = called(capsys, "status", "--state", folder)
    first, _, *rows = out.splitlines()
    assert first == "no elasticd runs: what its journal has, until 1970-01-01 00:01:30 UTC"
    assert [line.split()[:4] for line in rows] == [
        ["a", "act", str(WEB), "2"],
        ["shop", "act", str(WEB), "4"],
    ]
    _, out, _ = called(capsys, "status", "--state", folder, "--json")
    assert [(one["policy"], one["at"]) for one in json.loads(out)["decisions"]] == [
        ("a", "1970-01-01T00:00:30.000Z"),
        ("shop", "1970-01-01T00:01:30.000Z"),
    ]


def test_status_shows_only_policies_in_force_with_or_without_daemon(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No row of a policy that is gone, nor of a workload that a policy is about no longer."""
    with daemons.daemon(tmp_path, web=policy(), old=policy().replace('"act"', '"observe"')) as running:
        until(lambda: len(json.loads(running.get("/status"))["decisions"]) == 2)
        port = running.address.rpartition(":")[2]
        settings = tmp_path / "elasticd.toml"
        text = settings.read_text()
        (tmp_path / "policies" / "old.toml").unlink()
        running.logged("1 policy in force\n")
        until(lambda: len(json.loads(running.get("/status"))["decisions"]) == 1)
        settings.write_text(text.replace("port = 0", f"port = {port}"))
        first, _, row = called(capsys, "status", "--config", settings)[1].splitlines()
        assert (first, row.split()[0]) == ("this elasticd leads, 1 policy in force", "web")
        settings.write_text(text)
        first = called(capsys, "status", "--config", settings)[1].splitlines()[0]
        assert first.startswith("an elasticd runs and was not asked (http.port: must be given")
        running.stop()
    first, _, row = called(capsys, "status", "--config", settings)[1].splitlines()
    assert re.fullmatch(r"no elasticd runs: what its journal has, until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", first)
    assert row.split()[:2] == ["web", "act"]
    settings.write_text(f"dry_run = true\n{text}")
    (tmp_path / "policies" / "web.toml").write_text(policy().replace('name = "web"', 'name = "other"'))
    first, _, last = called(capsys, "status", "--config", settings)[1].splitlines()
    assert first.endswith("UTC; dry run: nothing is sent to the cluster")
    assert last == "nothing is decided yet by: web"
    (tmp_path / "policies" / "web.toml").write_text("nonsense")
    first, _, *rows = called(capsys, "status", "--config", settings)[1].splitlines()
    assert "which policies are in force is not known, for their files have mistakes" in first
    assert [row.split()[0] for row in rows] == ["old", "web"]


@pytest.mark.parametrize("command", [["status"], ["explain", "shop/Deployment/web"], ["plugins"]])
def test_piped_rows_are_neither_wrapped_nor_coloured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, state: Path, command: list[str]
) -> None:
    more = [] if command == ["plugins"] else ["--state", state]
    monkeypatch.setenv("COLUMNS", "500")
    _, wide, _ = called(capsys, *command, *more)
    for name, value in (("COLUMNS", "20"), ("FORCE_COLOR", "1"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    code, narrow, _ = called(capsys, *command, *more)
    assert code == 0
    assert "\x1b" not in narrow
    assert len(narrow.splitlines()) == len(wide.splitlines())


def terminal(*arguments: object, columns: int) -> str:
    """What a person sees in a terminal of that width."""
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor() as pool, pytest.MonkeyPatch.context() as patch:
        seen = pool.submit(everything, ours)  # meanwhile: a terminal takes only so much ahead
        with os.fdopen(theirs, "w") as screen:
            patch.setattr("sys.stdout", screen)
            for name, value in (("COLUMNS", str(columns)), ("TERM", "xterm")):
                patch.setenv(name, value)
            assert main([str(argument) for argument in arguments]) == 0
        return seen.result(PATIENCE).decode()


def everything(source: int) -> bytes:
    """What can be read of it until its other end is closed."""
    read = b""
    try:
        while chunk := os.read(source, 65536):
            read += chunk
    except OSError:  # as a terminal says it
        pass
    os.close(source)
    return read


@pytest.mark.parametrize("command", ["status", "explain shop/Deployment/web"])
def test_lines_on_an_80_column_terminal_are_coloured_and_fit(state: Path, command: str) -> None:
    seen = terminal(*command.split(), "--state", state, columns=80)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    assert seen != plain
    assert max(len(line) for line in plain.splitlines()) <= 80
    assert "web" in plain


@pytest.mark.parametrize(
    "command", [["plugins"], ["plugins", "--json"], ["status"], ["explain", "shop/Deployment/web"]]
)
def test_a_reader_that_has_seen_enough_is_no_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, state: Path, command: list[str]
) -> None:
    more = [] if command[0] == "plugins" else ["--state", str(state)]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", output)
        assert main([*command, *more]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_run_prints_every_change_as_it_is_made(tmp_path: Path) -> None:
    process = subprocess.Popen(
        daemons.command("run", "--decisions", "--config", write(tmp_path, web=policy())),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert re.fullmatch(r"\d\d:\d\d:\d\d  shop/Deployment/web +every 0\.2 s  2 -> 4 replicas: .*\n", line)


def test_check_is_content_with_what_is_right(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, web=policy())
    assert called(capsys, "check", tmp_path) == (0, "1 policy is fine\n", "")
    assert called(capsys, "check", tmp_path / "policies") == (0, "1 policy is fine\n", "")
    assert called(capsys, "check", "config/demo") == (0, "9 policies are fine\n", "")


def test_check_prints_a_line_for_each_mistake(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = write(tmp_path, a=policy(0), b="[", c=policy(), d=policy(2))
    settings.write_text("[htpp]")
    code, out, err = called(capsys, "check", tmp_path)
    files = [line.split(": ")[0].rpartition("/")[2] for line in out.splitlines()]
    assert (code, files, err) == (78, ["elasticd.toml", "a.toml", "b.toml", "d.toml"], "")


def test_check_reports_a_missing_folder_beside_other_mistakes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "elasticd.toml").write_text("[htpp]")
    code, out, _ = called(capsys, "check", tmp_path)
    assert (code, len(out.splitlines())) == (78, 2)
    assert called(capsys, "check", tmp_path / "none")[0] == 78


def test_plugins_lists_all_with_their_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "plugins")
    assert code == 0
    for name, kind in (("cadence", "strategy"), ("rate", "limit"), ("filters", "pool strategy"), ("mqtt", "source")):
        assert re.search(rf"^{name} +{kind}  ", out, re.MULTILINE), name
    assert " \n" not in out
    code, out, _ = called(capsys, "plugins", "--json")
    found = {one["name"]: one for one in json.loads(out)}
    assert found["cadence"]["distribution"].startswith("elasticd ")
    assert {option["name"]: option["default"] for option in found["cadence"]["options"]}["slow"] == "30.0"


def test_plugins_shows_one_with_its_options_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "plugins", "cadence")
    assert code == 0
    assert re.search(r"^alpha +number > 0 +0\.5 +of the requests", out, re.MULTILINE), out
    assert len(json.loads(called(capsys, "plugins", "forecast", "--json")[1])) == 2
    line = 'nothing installed is called "cadense", did you mean "cadence"?\n'
    assert called(capsys, "plugins", "cadense") == (69, "", line)


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["explain"], ["check", "a", "b"], ["run", "--nonsense"]])
def test_wrong_arguments_are_refused_with_the_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("usage: elasticd")


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert re.fullmatch(r"elasticd \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_explaining_from_a_large_journal_reads_little_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Journal(tmp_path, segment_bytes=50_000, segments=100)
    for number in range(2000):
        made.append(decision(number * 30.0))
        made.flush()
    made.close()
    opened: list[Path] = []
    real = open

    def note(path: Path, *arguments: Any, **more: Any) -> Any:
        opened.append(path)
        return real(path, *arguments, **more)

    monkeypatch.setattr(segments, "open", note, raising=False)
    assert called(capsys, "explain", "shop/Deployment/web", "--state", tmp_path)[0] == 0
    assert (len(list(tmp_path.iterdir())) > 10, len(opened)) == (True, 1)


def test_check_advises_where_looking_often_brings_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text, _, _ = daemons.policy().partition("metrics =")
    text += 'metrics = [{ type = "Resource", resource = "cpu", utilization = 50 }]\n'
    settings = daemons.write(tmp_path, web=text)
    settings.write_text("[cluster]\ntype = 'kubernetes'\n")
    code, out, _ = called(capsys, "check", tmp_path)
    advice, fine = out.splitlines()
    assert (code, fine) == (0, "1 policy is fine")
    assert advice.startswith("web.toml: interval: to look every 0.2 s brings nothing: resource-metrics usually has")


SOURCE = """
[[source]]
type = "resource-metrics"
nodes = true

"""

MQTT = """
[cluster]
type = "kubernetes"
[[source]]
type = "mqtt"
username = "elasticd"
password_file = "{password}"
topic = [{{ topic = "sensors/{{namespace}}/{{workload}}/queue", series = "queue", subject = "workload" }}]
"""


def test_check_looks_at_the_files_that_sources_need(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = daemons.write(tmp_path, web=daemons.policy())
    settings.write_text(MQTT.format(password="password"))
    code, out, _ = called(capsys, "check", tmp_path)
    told = f"{settings}: source[0]: {tmp_path}/password: must be readable, is not: No such file or directory\n"
    assert (code, out) == (78, told)
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "password").chmod(0o644)
    code, out, _ = called(capsys, "check", tmp_path)
    assert (code, out.startswith(f"{settings}: source[0]: {tmp_path}/password: must not be readable")) == (78, True)
    (tmp_path / "password").chmod(0o600)
    assert called(capsys, "check", tmp_path)[0] == 0


def test_check_leaves_credentials_that_systemd_would_pass_to_systemd(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    settings = daemons.write(tmp_path, web=daemons.policy())
    settings.write_text(MQTT.format(password="credential:mqtt"))
    code, out, _ = called(capsys, "check", tmp_path)
    told, *_, fine = out.splitlines()
    assert (code, fine) == (0, "1 policy is fine")
    assert told.startswith(f"{settings}: source[0]: credential:mqtt: must be passed by systemd")


def test_check_knows_the_sources_that_policies_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    daemons.write(tmp_path, web=daemons.policy() + '[trust]\nsources = ["resource-metric"]\n')
    code, out, _ = called(capsys, "check", tmp_path)
    problem = 'must be one of resource-metrics, is "resource-metric", did you mean "resource-metrics"?'
    assert (code, out) == (78, f"{tmp_path}/policies/web.toml: trust.sources[0]: {problem}\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_reported_in_one_line(state: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            daemons.command("status", "--state", state), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (69, "output: must be writable, is not: No space left on device\n")


CPU = 'type = "Resource", resource = "cpu", utilization = 60'
UNREADABLE_MODULE = """
import sys
from elasticd.__main__ import main


class Failing:
    def find_spec(self, name, path=None, target=None):
        if name == "elasticd.cluster.kubernetes.credentials":
            raise OSError(5, "Input/output error", "/lib/credentials.py")


sys.meta_path.insert(0, Failing())
sys.exit(main())
"""


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_no_output(tmp_path: Path) -> None:
    """Such as a module that is imported late, on a disk that fails."""
    settings = write(tmp_path, web=policy().replace('type = "External", series = "queue", average_value = 10', CPU))
    settings.write_text(f'{settings.read_text().split("[cluster]")[0]}[cluster]\ntype = "kubernetes"\n')
    arguments = [sys.executable, "-c", UNREADABLE_MODULE, "run", "--config", str(settings)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 69
    assert done.stderr.endswith("/lib/credentials.py: must be usable, is not: Input/output error\n")


@pytest.mark.slow
def test_a_running_daemon_shows_moves_and_rebalances_on_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    port = free_port()
    settings = write(tmp_path, web=policy())
    settings.write_text(settings.read_text().replace("port = 0", f"port = {port}"))
    with daemons.daemon(tmp_path):
        assert called(capsys, "moves", "--config", settings) == (0, "no move is in flight\n", "")
        assert called(capsys, "moves", "--json", "--config", settings)[:2] == (
            0,
            '{"in_flight":[],"held_back":[],"left_alone":"","unread":"","stale":[]}\n',
        )
        answer = called(capsys, "rebalance", "--now", "--state", tmp_path / "state", "--config", settings)
        assert answer == (0, "no policy in force has a strategy that moves pods\n", "")


POOL = """
mode = "act"
[pool]
[moves]
every = 1
[[strategy]]
type = "filters"
[[strategy]]
type = "rebalance"
"""


@pytest.mark.slow
def test_a_running_daemon_shows_its_pools_nodes_and_next_moves(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    port = free_port()
    settings = write(tmp_path, batch=POOL)
    text = settings.read_text().replace("port = 0", f"port = {port}").replace("[cluster]", SOURCE + "[cluster]")
    settings.write_text(text)
    with daemons.daemon(tmp_path):
        daemons.until(lambda: "the nodes are level" in called(capsys, "nodes", "--config", settings)[1])
        code, out, _ = called(capsys, "nodes", "--config", settings)
        assert (code, out.splitlines()[0]) == (0, "pool batch (act)")
        assert [line.split()[0] for line in out.splitlines() if line.startswith("node-")] in (
            ["node-1", "node-2"],
            ["node-2", "node-1"],
        )
        (one,) = json.loads(called(capsys, "nodes", "--json", "--config", settings)[1])
        assert {node["level"]["state"] for node in one["nodes"]} <= {"level", "takes", "gives", "high"}
        code, out, _ = called(capsys, "nodes", "node-2", "--config", settings)
        assert (code, out.splitlines()[0]) == (0, "node-2  pool batch (act), ready, 1 of 110 pods")
        assert "shop/web-000002" in out
        (one,) = json.loads(called(capsys, "nodes", "node-2", "--json", "--config", settings)[1])
        assert [pod["stays"] for pod in one["always"]] == ["Young"]
        code, out, err = called(capsys, "nodes", "node-3", "--config", settings)
        assert (code, out, err) == (69, "", 'no pool has a node node-3, did you mean "node-2"?\n')


def test_rebalance_asks_for_a_look_now_and_for_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["rebalance"])
    assert stopped.value.code == 2
    assert "--now" in capsys.readouterr().err


def test_check_against_shows_what_would_change_now(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, web=policy())
    before = sorted(tmp_path.rglob("*"))
    code, out, err = called(capsys, "check", tmp_path, "--against")
    assert (code, err) == (1, "")
    fine, _, row, total, note = out.splitlines()
    assert fine == "1 policy is fine"
    assert row.split()[:4] == ["shop/Deployment/web", "web", "2", "4"]
    assert total == "1 workload would change now, of 1 that these policies govern"
    assert note.startswith("which workloads would newly be governed is not known: http.port: must be given")
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"


def test_check_against_shows_that_a_count_would_fall(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Although each fall waits for 3 s, and by a window for longer."""
    write(tmp_path, web=policy().replace("average_value = 10", "average_value = 1000"))
    code, out, _ = called(capsys, "check", tmp_path, "--against")
    assert code == 1
    assert out.splitlines()[2].split()[:5] == ["shop/Deployment/web", "web", "2", "1", "ScaleDownStabilized:"]


def test_check_against_is_content_where_nothing_would_change(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path, web=policy().replace('"act"', '"observe"'))
    code, out, _ = called(capsys, "check", tmp_path, "--against", "--json")
    against = json.loads(out)["against"]
    assert (code, against["changes"], against["workloads"]) == (0, [], 1)


def test_check_against_needs_settings_and_right_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, web=policy())
    code, _, err = called(capsys, "check", tmp_path / "policies", "--against")
    assert (code, "--against: must be given beside an elasticd.toml" in err) == (78, True)
    write(tmp_path, web=policy(0))
    assert called(capsys, "check", tmp_path, "--against")[0] == 78


@pytest.mark.parametrize(("closed", "prints"), [(">&-", False), ("2>&-", True), (">&- 2>&- <&-", False)])
def test_commands_do_their_work_with_closed_streams(state: Path, closed: str, prints: bool) -> None:
    called_so = ["sh", "-c", f'exec "$@" {closed}', "sh", *daemons.command("status", "--state", state)]
    done = subprocess.run(called_so, capture_output=True, text=True, check=False)
    assert (done.returncode, bool(done.stdout), done.stderr) == (0, prints, "")


@pytest.mark.slow
def test_a_daemon_with_closed_streams_runs_and_ends(tmp_path: Path) -> None:
    port, settings = free_port(), write(tmp_path, web=policy(3))
    settings.write_text(settings.read_text().replace("port = 0", f"port = {port}"))
    (tmp_path / "log").touch()
    ran = daemons.command("run", "--decisions", "--config", settings)
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *ran])
    try:
        running = daemons.Daemon(tmp_path, process, f"http://127.0.0.1:{port}")
        until(lambda: _answers(port))
        running.replicas(3)
        assert running.stop() == 0
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class _Interrupted(ModuleType):
    """A module during whose import Ctrl-C was pressed."""

    def __getattr__(self, name: str) -> Any:
        raise KeyboardInterrupt


def test_ctrl_c_during_the_imports_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elasticd.cli", _Interrupted("elasticd.cli"))
    assert entry_point.main() == 130


@pytest.mark.parametrize(
    "megabytes",
    [
        pytest.param(60, id="before OpenBLAS"),
        pytest.param(150, id="during the imports"),
        pytest.param(185, id="before the daemon's threads"),
    ],
)
def test_a_daemon_without_memory_to_begin_is_one_line(tmp_path: Path, megabytes: int) -> None:
    write(tmp_path, web=policy())
    run = daemons.command("run", "--config", tmp_path / "elasticd.toml")
    limited = ["sh", "-c", f'ulimit -v {megabytes}000; exec "$@"', "sh", *run]
    ended = subprocess.run(limited, capture_output=True, text=True, timeout=PATIENCE, check=False)
    limits = "ulimit -v or -d, LimitAS=, LimitDATA="
    line = f"memory: must be left, is not: a limit of the process ({limits}) is reached\n"
    assert (ended.returncode, ended.stderr) == (71, line)


VERSION = """
import contextlib, os, sys
from elasticd.__main__ import main
sys.argv = ["elasticd", "--version"]
with contextlib.suppress(SystemExit):
    main()
print(len(os.listdir("/proc/self/task")))
"""


def test_the_imports_start_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none may be started, OpenBLAS would end the process."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    output = subprocess.check_output([sys.executable, "-c", VERSION], text=True)
    assert output.splitlines()[-1] == "1"
