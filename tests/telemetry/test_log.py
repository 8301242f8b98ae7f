"""The log: what each form of it looks like, and which lines are in it."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elasticd.telemetry.log import MINUTE, MOST, Format, Formatter, LossyHandler, Sparing, is_journal
from tests.kit.daemons import command, policy, run, until, write

AT = 1_790_000_000.1234


def record(message: str, level: int = logging.WARNING, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("elasticd.loop", level, "", 0, message, (), None)
    made.created = AT
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_a_message_cannot_pass_for_two_lines() -> None:
    quoted = record("the server says: no\n2026-09-21T14:13:20.123Z INFO all is well\x1b[2K")
    (line,) = Formatter("text", journal=False).format(quoted).split("\n")
    assert line.endswith(r"WARNING the server says: no\n2026-09-21T14:13:20.123Z INFO all is well\x1b[2K")


def test_a_library_logs_so_many_lines_a_minute() -> None:
    sparing = Sparing()
    flood = [record("refused", name="aiohttp.server", created=AT + second / 100) for second in range(1000)]
    assert sum(map(sparing.filter, flood)) == MOST
    later = record("refused", name="aiohttp.server", created=AT + MINUTE)
    assert sparing.filter(later)
    assert later.getMessage() == f"refused ({1000 - MOST} more before it were left out)"
    assert sparing.filter(record("refused", name="asyncio", created=AT))


def test_every_line_of_our_own_is_logged() -> None:
    sparing = Sparing()
    assert all(sparing.filter(record("changed")) for _ in range(10 * MOST))


def test_a_log_that_nobody_reads_holds_nobody_up() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as log, os.fdopen(writer, "w") as stream:
        handler = LossyHandler(stream)
        handler.setFormatter(Formatter("text", journal=False))
        sent = 3000
        for number in range(sent):
            handler.handle(record(f"{number} " + "x" * 100))
        os.set_blocking(log.fileno(), False)
        begun = log.read().splitlines()
        handler.handle(record("read again"))
        rest = log.read().splitlines()
    whole = [int(line.split()[2]) for line in begun if line.endswith(b"x" * 100)]
    assert whole == list(range(len(whole)))
    assert 0 < len(whole) < sent
    told = f"{sent - len(whole)} lines of the log left out: its reader did not keep up".encode()
    assert rest[-2].endswith(told)
    assert rest[-1].endswith(b"WARNING read again")


def test_a_line_longer_than_the_pipe_is_cut() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as log, os.fdopen(writer, "w") as stream:
        handler = LossyHandler(stream)
        handler.handle(record("y" * 200_000))
        os.set_blocking(log.fileno(), False)
        assert set(log.read()) == set(b"y")
        handler.handle(record("z"))
        assert log.read().splitlines() == [b"", b"1 line of the log left out: its reader did not keep up", b"z"]


def raised() -> logging.LogRecord:
    try:
        raise RuntimeError("no")
    except RuntimeError:
        return record("it failed", logging.ERROR, exc_info=sys.exc_info())


@pytest.mark.parametrize(
    ("form", "journal", "printed"),
    [
        pytest.param("text", False, "2026-09-21T14:13:20.123Z WARNING a line", id="text"),
        pytest.param("text", True, "<4>a line", id="text for the journal"),
        pytest.param(
            "json",
            False,
            '{"level":"warning","logger":"elasticd.loop","message":"a line","time":"2026-09-21T14:13:20.123Z"}',
            id="JSON",
        ),
        pytest.param(
            "json",
            True,
            '<4>{"level":"warning","logger":"elasticd.loop","message":"a line","time":"2026-09-21T14:13:20.123Z"}',
            id="JSON for the journal",
        ),
    ],
)
def test_a_line_is_as_its_form_says(form: Format, journal: bool, printed: str) -> None:
    assert Formatter(form, journal=journal).format(record("a line")) == printed


@pytest.mark.parametrize(
    ("level", "priority"),
    [
        (logging.CRITICAL, 2),
        (logging.ERROR, 3),
        (logging.WARNING, 4),
        (logging.INFO, 6),
        (logging.DEBUG, 7),
    ],
)
def test_each_level_has_its_priority(level: int, priority: int) -> None:
    assert Formatter("text", journal=True).format(record("a", level)) == f"<{priority}>a"


def test_an_exception_is_one_field_of_a_line() -> None:
    line = Formatter("json", journal=False).format(raised())
    fields = json.loads(line)
    assert "\n" not in line
    assert (fields["message"], fields["exception"].splitlines()[-1]) == ("it failed", "RuntimeError: no")
    assert fields["exception"].startswith("Traceback")


def test_each_line_of_an_exception_has_the_priority() -> None:
    lines = Formatter("text", journal=True).format(raised()).splitlines()
    assert (lines[0], lines[-1]) == ("<3>it failed", "<3>RuntimeError: no")
    assert all(line.startswith("<3>") for line in lines)


def test_half_a_character_costs_no_line() -> None:
    fields = json.loads(Formatter("json", journal=False).format(record("a \ud800 b")))
    assert fields["message"] == "a ? b"


def test_the_journal_is_known_by_its_stream_and_no_other(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream, (tmp_path / "other").open("w") as other:
        stat = os.fstat(stream.fileno())
        told = {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
        assert is_journal(stream, told)
        assert not is_journal(other, told)
        assert not is_journal(stream, {})
        assert not is_journal(stream, {"JOURNAL_STREAM": "nonsense"})


@pytest.mark.slow
def test_a_config_error_is_logged_in_the_requested_format(tmp_path: Path) -> None:
    settings = write(tmp_path, web=policy(0))
    done = run("run", "--config", settings, "--log-format", "json")
    (line,) = done.stderr.splitlines()
    fields = json.loads(line)
    assert (done.returncode, fields["level"]) == (78, "error")
    assert fields["message"].endswith("replicas.max: must be >= 1, is 0")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["time"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        pytest.param([], r"<6>1 policy in force, pages at \S+\n", id="info"),
        pytest.param(["--log-level", "warning"], r"", id="warning"),
    ],
)
def test_under_systemd_it_logs_priorities_and_no_times(tmp_path: Path, options: list[str], pattern: str) -> None:
    settings = write(tmp_path, web=policy())
    path = tmp_path / "log"
    with path.open("wb") as log:
        stat = os.fstat(log.fileno())
        environment = {**os.environ, "JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
        process = subprocess.Popen(
            command("run", "--config", settings, *options), stderr=log, stdout=subprocess.DEVNULL, env=environment
        )
    try:
        until((tmp_path / "state" / "journal-00000001.jsonl").exists)
        until(lambda: re.fullmatch(pattern, path.read_text()), f"not as it should be:\n{path.read_text()}")
    finally:
        process.kill()
        process.wait()
