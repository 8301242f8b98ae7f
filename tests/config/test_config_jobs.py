"""Policies of job sets and their templates: every mistake is one line that says what to mend."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from elasticd.base.errors import ConfigError
from elasticd.cluster.kubernetes.wire.jobs import SET, TemplateError, check, hash_of, parse, stamped
from elasticd.config import read_policies, template_files
from elasticd.config.files import files_state
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.registry import Registry
from elasticd.testing import registry
from elasticd_plugins import jobs
from tests.kit.batches import template
from tests.kit.policies import load_workloads

REGISTRY: Registry = registry(jobs)
JOB = '[job]\nnamespace = "media"\nname = "transcode"\ntemplate_file = "transcode.yaml"\n'
REST = '[replicas]\nmax = 5\n[[strategy]]\ntype = "jobs"\nqueue = [{ series = "queue_length" }]\n'


def load(folder: Path, text: str = JOB + REST, manifest: Any = None) -> Policy:
    (folder / "transcode.yaml").write_text(yaml.safe_dump(template() if manifest is None else manifest))
    (folder / "media.toml").write_text(text)
    return load_workloads(folder / "media.toml", REGISTRY)


def problem(folder: Path, text: str = JOB + REST, manifest: Any = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, manifest)
    assert str(caught.value).isprintable()
    return str(caught.value).replace(f"{folder}/", "")


def test_a_job_set_is_read_with_its_template_and_defaults(tmp_path: Path) -> None:
    found = load(tmp_path)
    assert found.job is not None
    assert found.workload == Target("media", "transcode", "Job", "batch/v1")
    assert (found.job.successful_history, found.job.failed_history, found.job.rollout) == (100, 100, "gradual")
    assert json.loads(found.job.manifest) == template()
    assert found.job.template == hash_of(found.job.manifest)
    assert found.replicas == Bounds(5, 0)  # without work there is no Job


def test_a_template_may_be_written_in_the_policy(tmp_path: Path) -> None:
    text = (
        JOB.replace('template_file = "transcode.yaml"\n', "")
        + """
[job.template]
apiVersion = "batch/v1"
kind = "Job"
[job.template.spec.template.spec]
restartPolicy = "Never"
containers = [{ name = "main", image = "x" }]
"""
    )
    assert load(tmp_path, text + REST).job == load(tmp_path).job


def test_min_is_what_is_given(tmp_path: Path) -> None:
    assert load(tmp_path, JOB + REST.replace("max = 5", "min = 2\nmax = 5")).replicas == Bounds(5, 2)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(JOB.replace("media", "Media") + REST, "media.toml: job.namespace: must", id="namespace"),
        pytest.param(JOB.replace('"transcode"', '"trans_code"') + REST, "media.toml: job.name: must", id="name"),
        pytest.param(JOB.replace('"transcode"', f'"{"t" * 44}"') + REST, "media.toml: job.name: must", id="long-name"),
        pytest.param(
            JOB.replace('template_file = "transcode.yaml"\n', "") + REST,
            "media.toml: job.template: must be given, or else template_file, neither is",
            id="no-template",
        ),
        pytest.param(
            JOB + "template = {}\n" + REST,
            "media.toml: job.template: must be given, or else template_file, both are",
            id="two-templates",
        ),
        pytest.param(
            JOB.replace("transcode.yaml", "none.yaml") + REST,
            "none.yaml: must be readable, is not: No such file or directory",
            id="no-such-file",
        ),
        pytest.param(
            JOB + "successful_history = -1\n" + REST,
            "media.toml: job.successful_history: must be >= 0, is -1",
            id="successful_history",
        ),
        pytest.param(
            JOB + "failed_history = -1\n" + REST,
            "media.toml: job.failed_history: must be >= 0, is -1",
            id="failed_history",
        ),
        pytest.param(
            JOB + 'rollout = "recreate"\n' + REST,
            'media.toml: job.rollout: must be one of default, gradual, is "recreate"',
            id="rollout",
        ),
        pytest.param(
            JOB + '[workload]\nnamespace = "a"\nname = "b"\n' + REST,
            "media.toml: workload: must be given, or else [select], [job] or [pool], [workload] and [job] are",
            id="workload-too",
        ),
        pytest.param(
            '[workload]\nnamespace = "a"\nname = "b"\nkind = "Job"\napi_version = "batch/v1"\n' + REST,
            "media.toml: workload.kind: must have a scale subresource, is Job: [job] is for sets of Jobs",
            id="a-job-as-workload",
        ),
        pytest.param(
            '[select]\nnamespaces = ["a"]\nkind = "Job"\napi_version = "batch/v1"\n' + REST,
            "media.toml: select.kind: must have a scale subresource, is Job: [job] is for sets of Jobs",
            id="jobs-by-label",
        ),
        pytest.param(
            JOB + REST.replace("[replicas]\nmax = 5\n", ""), "media.toml: replicas: must be given", id="no-max"
        ),
    ],
)
def test_a_mistake_in_a_job_set_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert problem(tmp_path, text).startswith(line)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The manifest with one thing changed; None takes it away."""
    manifest: dict[str, Any] = template()
    at: Any = manifest
    *steps, last = path.split(".")
    for step in steps:
        at = at.setdefault(step, {})
    if value is None:
        at.pop(last)
    else:
        at[last] = value
    return manifest


@pytest.mark.parametrize(
    ("manifest", "line"),
    [
        pytest.param(changed("apiVersion", "v1"), 'apiVersion: must be batch/v1, is "v1"', id="apiVersion"),
        pytest.param(changed("kind", "CronJob"), 'kind: must be Job, is "CronJob"', id="kind"),
        pytest.param(changed("kind", None), "kind: must be Job, is missing", id="no-kind"),
        pytest.param(changed("metadata.name", "a"), "metadata.name: must be left out", id="name"),
        pytest.param(
            changed("metadata.generateName", "a-"), "metadata.generateName: must be left out", id="generateName"
        ),
        pytest.param(
            changed("metadata.namespace", "shop"), 'metadata.namespace: must be media, is "shop"', id="namespace"
        ),
        pytest.param(
            changed("metadata.labels", {SET: "x"}), "metadata.labels: must have no key of elasticd.io/", id="ours"
        ),
        pytest.param(changed("metadata.labels", {"a": 1}), "metadata.labels.a: must be a string, is 1", id="label"),
        pytest.param(changed("spec", None), "spec: must be given, is missing", id="no-spec"),
        pytest.param(changed("spec.selector", {}), "spec.selector: must be left out", id="selector"),
        pytest.param(
            changed("spec.manualSelector", True), "spec.manualSelector: must be left out", id="manualSelector"
        ),
        pytest.param(changed("spec.template", []), "spec.template: must be a table, is []", id="template"),
        pytest.param(
            changed("spec.template.metadata.labels", {SET: "x"}),
            "spec.template.metadata.labels: must have no key of elasticd.io/",
            id="ours-on-pods",
        ),
        pytest.param(
            changed("spec.template.spec.containers", []),
            "spec.template.spec.containers: must have a container, has none",
            id="no-container",
        ),
        pytest.param(
            changed("spec.template.spec.restartPolicy", "Always"),
            'spec.template.spec.restartPolicy: must be Never or OnFailure, is "Always"',
            id="restartPolicy",
        ),
        pytest.param(
            changed("spec.template.spec.restartPolicy", None),
            "spec.template.spec.restartPolicy: must be Never or OnFailure, is missing",
            id="no-restartPolicy",
        ),
        pytest.param([], "must be a table, is a list", id="a-list"),
    ],
)
def test_a_mistake_in_a_template_is_one_line(tmp_path: Path, manifest: Any, line: str) -> None:
    assert problem(tmp_path, manifest=manifest).startswith(f"transcode.yaml: {line}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: [", "must be YAML: ", id="no-yaml"),
        pytest.param("a: 1\n---\nb: 2\n", "must be one manifest, is 2", id="two"),
        pytest.param("", "must be one manifest, is 0", id="none"),
        pytest.param("a: 2026-01-01", "a: must be text in quotes, a number, true or false, is 2026-01-01", id="a-date"),
        pytest.param("a: {1: b}", "a: must have strings for keys, has a number", id="a-number-for-a-key"),
        pytest.param("a: &a [*a]", "must have at most 10000 values, has more", id="endless"),
        pytest.param("!!python/name:os.system x", "must be YAML: could not determine a constructor", id="code"),
    ],
)
def test_a_file_that_is_no_manifest_is_one_line(text: str, line: str) -> None:
    with pytest.raises(TemplateError) as caught:
        check(parse(text), "media")
    assert str(caught.value).startswith(line)
    assert str(caught.value).isprintable()


NO_MANIFESTS = [
    "hunter2",
    "[hunter2]",
    "a: hunter2: b",
    "hunter2: [",
    "hunter2\n\thunter2: 1",
    "*hunter2",
    "!hunter2 a: b",
]
"""Files that are no manifests."""


@pytest.mark.parametrize("text", NO_MANIFESTS)
def test_a_mistake_quotes_no_password_of_another_file(text: str) -> None:
    with pytest.raises(TemplateError) as caught:
        check(parse(text), "media")
    assert "hunter2" not in str(caught.value)


def test_hash_of_a_template_does_not_depend_on_key_order() -> None:
    one = check({"kind": "Job", "apiVersion": "batch/v1", "spec": template()["spec"]}, "media")
    assert hash_of(one) == hash_of(check(template(), "media"))
    assert hash_of(one) != hash_of(check(template(serviceAccountName="other"), "media"))


def test_a_job_keeps_the_labels_of_its_template() -> None:
    manifest = template()
    manifest["metadata"] = {"labels": {"app": "a"}, "annotations": None}
    made = stamped(check(manifest, "media"), "transcode-x-1", "transcode", "x", "why")
    assert made["metadata"]["labels"].items() >= {"app": "a", SET: "transcode"}.items()
    assert made["spec"]["template"]["metadata"]["labels"] == {SET: "transcode"}


def test_two_policies_may_not_act_on_one_job_set(tmp_path: Path) -> None:
    load(tmp_path, 'mode = "act"\n' + JOB + REST)
    (tmp_path / "other.toml").write_text('mode = "act"\n' + JOB + REST)
    _, (error,) = read_policies(tmp_path, REGISTRY)
    assert str(error).endswith("other.toml: job: must not be one that media.toml acts on too")


def test_a_policy_is_read_again_when_its_template_changes(tmp_path: Path) -> None:
    load(tmp_path)
    assert [path.name for path in template_files(tmp_path)] == ["transcode.yaml"]
    before = files_state(tmp_path)
    (tmp_path / "transcode.yaml").write_text(yaml.safe_dump(template(serviceAccountName="other")))
    assert files_state(tmp_path) != before
