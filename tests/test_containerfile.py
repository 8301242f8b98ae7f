"""The Containerfile fits the package and the Deployment. No test builds it: that takes a base image, and minutes."""

import re
import shlex
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
TEXT = re.sub(r"^#.*\n", "", (ROOT / "Containerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
DEPLOYMENT = yaml.safe_load((ROOT / "config" / "kubernetes" / "deployment.yaml").read_text(encoding="utf-8"))


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", TEXT, re.MULTILINE)


def test_it_copies_only_what_exists() -> None:
    copied = [shlex.split(line)[:-1] for line in instructions("COPY") if not line.startswith("--from")]
    paths = [path for line in copied for path in line]
    assert {"elasticd", "plugins", "config", "docs/reference", "pyproject.toml"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_it_copies_all_that_the_package_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = [file for files in project["tool"]["setuptools"]["data-files"].values() for file in files]
    folders = set(project["tool"]["setuptools"]["package-dir"].values()) | {"elasticd"}
    needed = [*folders, *data, project["project"]["readme"], *project["project"]["license-files"]]
    copied = {path for line in instructions("COPY") for path in shlex.split(line)[:-1]}
    assert [path for path in needed if not any(path == one or path.startswith(f"{one}/") for one in copied)] == []


def test_it_runs_as_the_deployment_does() -> None:
    spec = DEPLOYMENT["spec"]["template"]["spec"]
    context = spec["securityContext"]
    assert instructions("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    (container,) = spec["containers"]
    assert instructions("EXPOSE") == [str(container["ports"][0]["containerPort"])]
    assert instructions("ENTRYPOINT") == ['["elasticd"]']


def test_it_calls_python_as_every_base_does() -> None:
    """Debian has no `python`."""
    assert [line for line in instructions("RUN") if re.search(r"(?<![/\w])python(?!3)", line)] == []


def test_its_base_is_pinned_and_a_python_that_is_supported() -> None:
    (base,) = [line for line in instructions("ARG") if line.startswith("BASE=")]
    version = re.fullmatch(r"BASE=python:(3\.\d+)-slim-bookworm", base)
    assert version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"Programming Language :: Python :: {version[1]}" in project["project"]["classifiers"]
