"""What is said of the packages that elasticd runs with."""

from pathlib import Path

import pytest

from tests.audit import main

CLEAN = '{"dependencies":[{"name":"rich","version":"15.0.0","vulns":[]}],"fixes":[]}'
FOUND = '{"id":"CVE-1","fix_versions":["15.1"],"aliases":[]}'
VULNERABLE = CLEAN.replace('"vulns":[]', f'"vulns":[{FOUND}]')
SKIPPED = '{"dependencies":[{"name":"rich","skip_reason":"not found"}]}'


@pytest.mark.parametrize(
    ("written", "code", "line"),
    [
        pytest.param(CLEAN, 0, "1 packages: 0 known vulnerabilities, 0 packages not checked", id="clean"),
        pytest.param(VULNERABLE, 1, "rich 15.0.0: CVE-1, fixed in 15.1", id="vulnerable"),
        pytest.param(SKIPPED, 0, "1 packages: 0 known vulnerabilities, 1 packages not checked", id="skipped"),
        pytest.param(None, 0, "known vulnerabilities are not checked: no database can be reached", id="no database"),
    ],
)
def test_only_a_known_vulnerability_fails_the_audit(
    written: str | None, code: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "vulnerabilities.json"
    if written is not None:
        path.write_text(written)
    assert main(path) == code
    assert capsys.readouterr().out.splitlines()[0] == line
