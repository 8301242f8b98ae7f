"""Asking a running daemon: what is said where it cannot be asked, and whether it is ready."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.base.errors import UnavailableError
from elasticd.config import HttpSettings
from elasticd.decision.decide import held
from elasticd.journal import Journal
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.workload import Ref
from elasticd.sources import settled
from elasticd.ui import remote
from tests.kit.daemons import called, write


@contextmanager
def answering(code: int, text: str, sent: list[str | None] | None = None) -> Iterator[HttpSettings]:
    """A server that says one thing, and keeps what it was sent to be let in."""

    class Says(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if sent is not None:
                sent.append(self.headers["Authorization"])
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            """Nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Says) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield HttpSettings(port=server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("ask", [remote.sources, remote.pools, remote.moves])
def test_a_port_that_nobody_knows_is_told_to_be_one(ask: object) -> None:
    with pytest.raises(UnavailableError, match=r"^http\.port: must be given to ask a running elasticd, is 0, of which"):
        ask(HttpSettings(port=0))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("code", "text", "told"),
    [
        pytest.param(200, "ok\n", "", id="ready"),
        pytest.param(503, "the journal cannot be written\n", "the journal cannot be written", id="not ready"),
        pytest.param(404, "what?", "", id="something else answers"),
    ],
)
def test_whether_a_daemon_is_ready(code: int, text: str, told: str) -> None:
    with answering(code, text) as address:
        assert remote.unready(address) == told


def test_where_none_answers_nothing_is_reported() -> None:
    with answering(200, "") as gone:
        pass
    assert remote.unready(gone) == remote.unready(HttpSettings(port=0)) == ""


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param(401, "must let this command read it, does not: no such token", id="a wrong token"),
        pytest.param(403, "must let this command read it, does not: no such token", id="no token"),
        pytest.param(404, "must be a running elasticd, is not: Not Found", id="something else"),
    ],
)
def test_why_a_daemon_gives_no_answer_is_told(code: int, why: str) -> None:
    with answering(code, "no such token\n") as http, pytest.raises(UnavailableError, match=why):
        remote.moves(http)


def test_a_command_sends_the_token_of_its_settings(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (tmp_path / "token").chmod(0o600)
    sent: list[str | None] = []
    with answering(200, '{"in_flight":[]}', sent) as http:
        remote.moves(replace(http, token_file=str(tmp_path / "token")))
    assert sent == ["Bearer 0123456789abcdef"]


def test_a_token_that_cannot_be_read_is_told() -> None:
    with pytest.raises(UnavailableError, match=r"^http\.token_file: /nowhere: must be readable, is not: No such file"):
        remote.moves(HttpSettings(token_file="/nowhere"))


UNWRITTEN = "the journal has not been written since 2026-11-22 02:41:07 UTC: No space left on device"


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        pytest.param(["status"], 0, "", id="status"),
        pytest.param(["status", "--json"], 0, "", id="status, for a machine"),
        pytest.param(["explain", "shop/Deployment/web"], 0, "", id="explain"),
        pytest.param(["explain", "shop/Deployment/new"], 69, "the journal has no decision about", id="what is lacking"),
        pytest.param(["explain", "pod", "shop/new"], 69, "the journal has no decision about pod", id="a pod"),
    ],
)
def test_every_command_reports_an_unwritten_journal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str], code: int, told: str
) -> None:
    rule = Policy(name="web", replicas=Bounds(3), strategies=(), workload=Target("shop", "web"))
    journal = Journal(tmp_path / "state")
    journal.append(held(rule, Ref("shop", "Deployment", "web"), 1.0, "NoIdea", "nothing is known"))
    journal.close()
    settings = write(tmp_path)
    with answering(503, UNWRITTEN) as address:
        settings.write_text(settings.read_text().replace("port = 0", f"port = {address.port}"))
        found, out, err = called(capsys, *command, "--config", settings)
    first, *more = err.splitlines()
    assert (found, first) == (code, f"elasticd is not ready: {UNWRITTEN}")
    assert "\n".join(more).partition(": ")[2].startswith(told)
    assert "--json" not in command or json.loads(out)


def test_explain_says_that_the_daemon_is_not_ready(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rule = Policy(name="web", replicas=Bounds(3), strategies=(), workload=Target("shop", "web"))
    journal = Journal(tmp_path / "state")
    journal.append(held(rule, Ref("shop", "Deployment", "web"), 1.0, "NoIdea", "nothing is known"))
    journal.close()
    settings = write(tmp_path)
    with answering(503, "the journal cannot be written") as address:
        settings.write_text(settings.read_text().replace("port = 0", f"port = {address.port}"))
        code, out, err = called(capsys, "explain", "shop/Deployment/web", "--config", settings)
        assert (code, err) == (0, "elasticd is not ready: the journal cannot be written\n")
        assert "nothing is known" in out
        alone = called(capsys, "explain", "shop/Deployment/web", "--state", tmp_path / "state")
        assert (alone[0], alone[2]) == (0, "")


def test_a_silent_mount_with_the_token_ends_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(settled, "PATIENCE", 0.05)
    monkeypatch.setattr(HttpSettings, "token", lambda _: answers.wait(30))
    try:
        with pytest.raises(UnavailableError, match=r"^http\.token_file: .*: its mount does not answer$"):
            remote.moves(HttpSettings(token_file="/token"))
    finally:
        answers.set()
