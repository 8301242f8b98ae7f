"""The table of rights and the roles in config/kubernetes say the same."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from elasticd.model.rights import FEATURES, NEVER, Right, listed

FOLDER = Path(__file__).resolve().parents[2] / "config" / "kubernetes"
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("rbac.yaml"))


def given(file: str) -> Iterator[tuple[str, Right]]:
    """Every right that a file gives, and where: in all namespaces, the daemon's own, or each that is named."""
    objects = [one for one in yaml.safe_load_all((FOLDER / file).read_text()) if one]
    for role in (one for one in objects if one["kind"] in ("Role", "ClusterRole")):
        binding = next(
            one
            for one in objects
            if one.get("roleRef", {}).get("name") == role["metadata"]["name"] and one["roleRef"]["kind"] == role["kind"]
        )
        place = "home" if role["kind"] == "Role" else "each" if binding["kind"] == "RoleBinding" else "all"
        for rule in role["rules"]:
            for name in rule.get("resourceNames", [""]):
                for verb in rule["verbs"]:
                    yield from (
                        (place, Right(verb, group, resource, name))
                        for group in rule["apiGroups"]
                        for resource in rule["resources"]
                    )


@pytest.mark.parametrize("file", FILES)
def test_roles_give_what_the_table_names_and_no_more(file: str) -> None:
    named = {(feature.place, right) for feature in FEATURES if feature.file == file for right in feature.rights}
    assert set(given(file)) == named


def test_every_file_of_the_table_is_there() -> None:
    assert {feature.file for feature in FEATURES} == set(FILES)


def test_the_docs_name_every_file_and_no_other() -> None:
    text = (FOLDER.parents[1] / "docs" / "running.md").read_text()
    section = text.partition("\n## Rights\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| (\S*rbac\.yaml) \|", section, re.MULTILINE)) == set(FILES)


def test_no_feature_needs_what_none_may_need() -> None:
    assert {right for feature in FEATURES for right in feature.rights}.isdisjoint(NEVER)


def test_rights_to_one_resource_are_told_together() -> None:
    rights = (Right("get", "", "pods"), Right("list", "", "pods"), Right("patch", "apps", "deployments/scale", "web"))
    assert listed(rights) == "get, list pods, patch deployments.apps/scale web"
