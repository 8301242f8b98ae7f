"""`elasticd import` as its users run it: files, stdin, folders, mistakes; and what it says."""

import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from elasticd.base.errors import ConfigError
from elasticd.migration.documents import read_documents
from tests.kit.daemons import called
from tests.migration.manifests import Manifest, cron_hpa, hpa, prometheus, scaled_object

EXTERNAL = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "3"}}}


def written(folder: Path, *manifests: Manifest) -> Path:
    path = folder / "objects.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    return path


def test_policies_of_a_file_pass_the_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = written(tmp_path, hpa([EXTERNAL]), scaled_object(prometheus())), tmp_path / "policies"
    code, text, err = called(capsys, "import", "hpa", file, "--out", out)
    assert (code, text, err) == (0, f"{out}: 1 policy, and sources.txt\n", "")
    assert sorted(path.name for path in out.iterdir()) == ["shop.web.toml", "sources.txt"]
    code, text, err = called(capsys, "check", out)
    assert (code, text, err) == (0, "1 policy is fine\n", "")


def test_sources_are_those_of_an_elasticd_toml(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "policies"
    called(capsys, "import", "scaledobject", written(tmp_path, scaled_object(prometheus())), "--out", out)
    settings = tmp_path / "elasticd.toml"
    settings.write_text(f'state = "{tmp_path}/state"\n' + (out / "sources.txt").read_text())
    code, text, err = called(capsys, "check", tmp_path)
    assert (code, text, err) == (0, "1 policy is fine\n", "")


def test_notes_go_to_stderr_and_into_the_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path, hpa([EXTERNAL], fallback={"replicas": 3}))
    code, text, err = called(capsys, "import", "hpa", file)
    note = "spec.fallback: has no equivalent, and was left out"
    assert (code, err) == (0, f"HorizontalPodAutoscaler shop/web: {note}\n")
    assert f"# Differs: {note}\n" in text
    assert "# Made from HorizontalPodAutoscaler shop/web by `elasticd import`. It only observes.\n" in text


def test_stdin_may_be_a_list_in_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    objects = {"apiVersion": "v1", "kind": "List", "items": [hpa([EXTERNAL])]}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(objects)))
    code, text, _ = called(capsys, "import", "hpa", "-")
    assert (code, text.count('mode = "observe"')) == (0, 1)


def test_an_hpa_of_a_scaled_object_is_not_imported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = hpa([EXTERNAL])
    table["metadata"]["ownerReferences"] = [{"kind": "ScaledObject", "name": "orders"}]
    code, _, err = called(capsys, "import", "hpa", written(tmp_path, table))
    assert code == 69
    assert "belongs to ScaledObject orders, which is imported instead of it" in err


def test_a_policy_that_cannot_be_is_not_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    advanced = {"scalingModifiers": {"formula": "len(one)", "target": "2"}}
    file = written(tmp_path, scaled_object(prometheus(name="one"), advanced=advanced))
    code, text, err = called(capsys, "import", "scaledobject", file)
    assert (code, text) == (69, "")
    assert "no policy is written: strategy[0].formula.expression: must use min, max, abs" in err


def test_files_that_were_changed_stay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, policy = written(tmp_path, hpa([EXTERNAL])), tmp_path / "shop.web.toml"
    arguments = ("import", "hpa", file, "--out", tmp_path)
    assert called(capsys, *arguments)[0] == 0
    imported = policy.read_text()
    policy.write_text(imported.replace('"observe"', '"act"'))
    code, _, err = called(capsys, *arguments)
    assert (code, err) == (78, f"{policy}: must not be there yet, is: --force writes over it\n")
    assert called(capsys, *arguments, "--force")[0] == 0
    assert policy.read_text() == imported


def test_a_policy_is_written_whole_or_not_at_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the second file; later a second run goes on."""
    hpas = [hpa([EXTERNAL]) | {"metadata": {"namespace": "shop", "name": name}} for name in ("a", "b", "c")]
    out, done = tmp_path / "policies", list[int]()
    arguments = ("import", "hpa", written(tmp_path, *hpas), "--out", out)

    def fill(descriptor: int) -> None:
        done.append(descriptor)
        if len(done) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fill)
        code, _, err = called(capsys, *arguments)
    assert (code, err) == (69, f"{out}: must be writable, is not: No space left on device\n")
    assert [path.name for path in out.iterdir()] == ["shop.a.toml"]
    assert called(capsys, *arguments)[:2] == (0, f"{out}: 3 policies, and sources.txt\n")
    assert called(capsys, "check", out)[:2] == (0, "3 policies are fine\n")


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        pytest.param([], 78, "FILE: must be given, or - or -n NAMESPACE or --all-namespaces, is missing", id="nothing"),
        pytest.param(
            ["-n", "a", "--all-namespaces"], 78, "-n: must not stand beside --all-namespaces, does", id="both"
        ),
        pytest.param(["x", "--all-namespaces"], 78, "FILE: must not stand beside --all-namespaces, does", id="file"),
        pytest.param(["none.yaml"], 78, "none.yaml: must be readable, is not: No such file or directory", id="no file"),
    ],
)
def test_wrong_arguments_are_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, problem: str
) -> None:
    assert called(capsys, "import", "hpa", *words) == (code, "", f"{problem}\n")


def test_a_file_without_such_objects_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path, cron_hpa())
    code, _, err = called(capsys, "import", "hpa", file)
    assert (code, err) == (69, f"{file}: must have a HorizontalPodAutoscaler, has none\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: [", "must be YAML or JSON: ", id="no YAML"),
        pytest.param("- 1", "must have objects of Kubernetes, has [1]", id="no object"),
        pytest.param("1: 2", "must have texts for keys, has 1", id="key"),
        pytest.param("!!python/object:os.system {}", "must be YAML or JSON: ", id="python"),
        pytest.param(
            "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 10)}]\n" for a, b in zip("abcde", "bcdef", strict=True)),
            "must have at most 100000 values, has more", id="endless",
        ),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_told(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_documents(text, "file.yaml")
    assert str(caught.value).startswith(f"file.yaml: {problem}")


def test_several_documents_and_lists_are_read(tmp_path: Path) -> None:
    listed: dict[str, Any] = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscalerList"}
    listed["items"] = [{"metadata": {"name": "inner"}}]
    documents = read_documents(yaml.safe_dump_all([hpa([]), None, listed]), "file.yaml")
    assert [document.table["metadata"]["name"] for document in documents] == ["web", "inner"]
    assert documents[1].table["kind"] == "HorizontalPodAutoscaler"


@pytest.mark.parametrize(
    ("count", "about"),
    [
        pytest.param(1, "file.yaml", id="one object"),
        pytest.param(2, "file.yaml, HorizontalPodAutoscaler shop/web", id="several"),
    ],
)
def test_what_is_said_of_one_of_several_objects_names_it(count: int, about: str) -> None:
    documents = read_documents(yaml.safe_dump_all([hpa([])] * count), "file.yaml")
    assert [document.file for document in documents] == [about] * count
