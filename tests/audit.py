"""Judges what pip-audit found: `python tests/audit.py vulnerabilities.json`. Known vulnerabilities are a failure; where
no database can be reached, it says what was not checked."""

import sys
from pathlib import Path

import msgspec
from msgspec import Struct


class Vulnerability(Struct):
    """One that is known, and the versions that do not have it."""

    id: str
    fix_versions: list[str] = []


class Package(Struct):
    """What was found for one package, or why nothing was looked for."""

    name: str
    version: str = ""
    vulns: list[Vulnerability] = []
    skip_reason: str = ""


class Audit(Struct):
    """What pip-audit writes."""

    dependencies: list[Package]


def judge(packages: list[Package]) -> tuple[list[str], bool]:
    """Lines that say what is known of these packages, and whether any is vulnerable."""
    known = [
        f"{package.name} {package.version}: {vulnerability.id}, fixed in {', '.join(vulnerability.fix_versions) or '-'}"
        for package in packages
        for vulnerability in package.vulns
    ]
    unchecked = sum(bool(package.skip_reason) for package in packages)
    lines = [*known, f"{len(packages)} packages: {len(known)} known vulnerabilities, {unchecked} packages not checked"]
    return lines, bool(known)


def main(path: Path) -> int:
    if not path.is_file():
        print("known vulnerabilities are not checked: no database can be reached")
        return 0
    lines, vulnerable = judge(msgspec.json.decode(path.read_bytes(), type=Audit).dependencies)
    print("\n".join(lines))
    return int(vulnerable)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
