"""What is generated from the code: whole, of use, and checked to be current (`make lint` does that)."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import reference
from tests.reference import FOLDER, ROOT

SHELL = """
source {script}
COMP_WORDS=({words}) COMP_CWORD={last} COMP_LINE="{line}" COMP_POINT={point}
_shtab_elasticd elasticd "${{COMP_WORDS[{last}]}}" "${{COMP_WORDS[{last}-1]}}"
echo "${{COMPREPLY[@]}}"
"""


def completed(*words: str) -> set[str]:
    """What bash offers after these words, the last of which is begun."""
    line = " ".join(("elasticd", *words))
    quoted = " ".join(f"'{word}'" for word in ("elasticd", *words))
    script = SHELL.format(
        script=FOLDER / "bash" / "elasticd", words=quoted, last=len(words), line=line, point=len(line)
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(("expl",), {"explain"}, id="a command"),
        pytest.param(("plugins", "--kin"), {"--kind"}, id="an option"),
        pytest.param(("run", "--log-format", "j"), {"json"}, id="a choice"),
    ],
)
def test_bash_completes_what_is_begun(words: tuple[str, ...], offered: set[str]) -> None:
    assert completed(*words) == offered


@pytest.mark.parametrize(
    ("shell", "file"),
    [pytest.param("zsh", "zsh/_elasticd", id="zsh"), pytest.param("fish", "fish/elasticd.fish", id="fish")],
)
def test_shells_can_read_their_completion(shell: str, file: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not on this machine")
    done = subprocess.run([program, "-n", FOLDER / file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not on this machine")
def test_man_formats_the_page_without_a_warning() -> None:
    page = FOLDER / "man" / "elasticd.1"
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "elasticd explain" in re.sub(r".\x08", "", " ".join(done.stdout.split()))


def test_every_command_is_in_the_page_and_the_manual() -> None:
    page, manual = (FOLDER / "commands.md").read_text(), (FOLDER / "man" / "elasticd.1").read_text()
    names = [command.name for command in reference.commands()]
    assert re.findall(r"^## elasticd (\S+)$", page, re.MULTILINE) == names
    assert re.findall(r"^\.SS elasticd (\S+)", manual, re.MULTILINE) == names


def test_a_page_that_differs_from_the_code_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "FOLDER", tmp_path / "reference")
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
    changed = tmp_path / "reference" / "exit-codes.md"
    changed.write_text(changed.read_text().replace("78", "79"))
    assert reference.main(["--check"]) == 1
    assert capsys.readouterr().out == "reference/exit-codes.md: must be as the code is, is not: make reference\n"


def test_the_reference_has_every_metric_and_exit_code() -> None:
    metrics, codes = (FOLDER / "metrics.md").read_text(), (FOLDER / "exit-codes.md").read_text()
    boards = "".join(path.read_text() for path in (ROOT / "config" / "grafana").glob("*.json"))
    named = {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"\belasticd_[a-z_]+", boards)}
    assert [name for name in sorted(named) if f"`{name}`" not in metrics] == []
    assert {0, 1, 2, 69, 70, 78} <= set(map(int, re.findall(r"^\| (\d+) \|", codes, re.MULTILINE)))
