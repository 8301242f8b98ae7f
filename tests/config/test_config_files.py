"""Files and folders of policies, settings, and plugins that cannot be used."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import tomli
from msgspec.structs import replace

from elasticd.api import Recommendation, Strategy, hookimpl
from elasticd.base.errors import ConfigError
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.simulated import Simulated
from elasticd.config import load_settings, policy_files, read_policies
from elasticd.config.files import read_toml
from elasticd.registry import Registry
from tests.kit.configs import BOUNDS, HPA, NODE, REGISTRY, VALID, WORKLOAD, problem_of


def test_settings_have_defaults_and_paths_are_relative_to_their_folder(tmp_path: Path) -> None:
    path = tmp_path / "elasticd.toml"
    path.write_text("")
    found = load_settings(path, REGISTRY)
    assert isinstance(found.cluster, Kubernetes)
    assert (found.policies, found.state) == (tmp_path / "policies", Path("/var/lib/elasticd"))
    assert [source.__struct_config__.tag for source in found.sources] == ["resource-metrics"]
    path.write_text('state = "state"\npolicies = "/etc/p"\nsource = []\n' + NODE)
    found = load_settings(path, REGISTRY)
    assert isinstance(found.cluster, Simulated)
    assert (found.policies, found.state, found.sources) == (Path("/etc/p"), tmp_path / "state", ())
    path.write_text('[cluster]\nkubeconfig = "kube/config"\n')
    assert load_settings(path, REGISTRY).cluster == Kubernetes(kubeconfig=str(tmp_path / "kube/config"))


def test_table_with_an_old_name_works_and_reports_the_new(tmp_path: Path) -> None:
    file = tmp_path / "elasticd.toml"
    file.write_text("[broker]\nper_node = 3\n")
    loaded = load_settings(file, REGISTRY)
    assert loaded.disruption.per_node == 3
    assert loaded.renamed == (f"{file}: broker: is called [disruption] now; 0.2 refuses the old name",)
    file.write_text("[disruption]\nper_node = 3\n")
    assert load_settings(file, REGISTRY) == replace(loaded, renamed=())


def test_a_table_by_both_its_names_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "elasticd.toml"
    file.write_text("[broker]\nper_node = 3\n[disruption]\nper_node = 4\n")
    with pytest.raises(ConfigError, match=r"broker: must be left out beside \[disruption\], its new name, is given"):
        load_settings(file, REGISTRY)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("missing.toml", "must be readable, is not: No such file or directory", id="missing"),
        pytest.param("folder.toml", "must be a file of at most 1 MB", id="a-folder"),
        pytest.param("/dev/zero", "must be a file of at most 1 MB", id="a-device"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ConfigError) as caught:
        read_toml(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {problem}"


def test_a_link_to_a_file_of_the_kernel_is_reported(tmp_path: Path) -> None:
    (tmp_path / "linked.toml").symlink_to("/proc/self/status")
    with pytest.raises(ConfigError, match=r"linked\.toml: must be readable, is not: it is a file of the kernel$"):
        read_toml(tmp_path / "linked.toml")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "secret.toml"
    path.touch(mode=0)
    with pytest.raises(ConfigError, match="must be readable, is not: Permission denied"):
        read_toml(path)


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        pytest.param("missing", "must be a readable folder, is not: No such file or directory", id="missing"),
        pytest.param("file", "must be a readable folder, is not: Not a directory", id="a-file"),
        pytest.param("a\0b", "must be a folder's path, is not: embedded null byte", id="no-path"),
    ],
)
def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path, folder: str, problem: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        policy_files(tmp_path / folder)
    assert str(caught.value).endswith(f": {problem}")
    assert str(caught.value).isprintable()


def test_folder_gives_its_toml_files_by_name_and_no_others(tmp_path: Path) -> None:
    for name in ("b.toml", "a.toml", ".hidden.toml", "a.toml~", "readme.md"):
        (tmp_path / name).touch()
    assert [path.name for path in policy_files(tmp_path)] == ["a.toml", "b.toml"]


def test_one_wrong_file_harms_no_other(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("mode = ")
    (tmp_path / "good.toml").write_text(VALID)
    policies, errors = read_policies(tmp_path, REGISTRY)
    assert [found.name for found in policies] == ["good"]
    assert [error.file for error in errors] == [str(tmp_path / "bad.toml")]


ACT = 'mode = "act"\n'
CUSTOM = WORKLOAD + 'kind = "Fleet"\napi_version = "example.test/v1"\n'
ALL = '[select]\nnamespaces = ["shop"]\n'


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        pytest.param(ACT + WORKLOAD, ACT + WORKLOAD, "workload", id="the-same-name"),
        pytest.param(ACT + WORKLOAD, WORKLOAD, None, id="one-only-observes"),
        pytest.param(WORKLOAD, WORKLOAD, None, id="both-only-observe"),
        pytest.param(ACT + WORKLOAD, ACT + WORKLOAD.replace("web", "api"), None, id="another-name"),
        pytest.param(ACT + WORKLOAD, ACT + WORKLOAD + 'kind = "StatefulSet"\n', None, id="another-kind"),
        pytest.param(ACT + CUSTOM, ACT + CUSTOM.replace("/v1", "/v1beta1"), "workload", id="two-versions-of-its-group"),
        pytest.param(ACT + CUSTOM, ACT + CUSTOM.replace("example", "other"), None, id="another-group"),
        pytest.param(ACT + WORKLOAD, ACT + ALL, "select", id="a-name-that-is-selected"),
        pytest.param(ACT + ALL, ACT + WORKLOAD, "workload", id="a-selection-that-has-the-name"),
        pytest.param(ACT + WORKLOAD, ACT + ALL.replace("shop", "*"), "select", id="any-namespace"),
        pytest.param(ACT + WORKLOAD, ACT + ALL.replace("shop", "test"), None, id="another-namespace"),
        pytest.param(ACT + WORKLOAD, ACT + ALL + 'labels = { a = "b" }\n', None, id="labels-only-the-cluster-knows"),
        pytest.param(ACT + ALL, ACT + ALL, "select", id="the-same-selection"),
        pytest.param(ACT + ALL, ACT + ALL.replace("shop", "test"), None, id="other-selections"),
    ],
)
def test_two_policies_that_would_act_on_one_workload_are_reported(
    tmp_path: Path, one: str, other: str, clash: str | None
) -> None:
    (tmp_path / "a.toml").write_text(one + BOUNDS + HPA)
    (tmp_path / "b.toml").write_text(other + BOUNDS + HPA)
    policies, errors = read_policies(tmp_path, REGISTRY)
    assert len(policies) == 2
    line = f"{tmp_path / 'b.toml'}: {clash}: must not be one that a.toml acts on too"
    assert [str(error) for error in errors] == ([line] if clash else [])


class Odd(Strategy, tag="odd", frozen=True):
    """Cannot say what it reads, or be checked."""

    how: str = "raises"

    def __post_init__(self) -> None:
        if self.how == "broken":
            raise KeyError("how")
        if self.how == "leaves":
            raise SystemExit(3)

    def reads(self) -> Any:
        if self.how == "raises":
            raise RuntimeError("no\nidea")
        return "cpu"

    @hookimpl(specname="recommend_replicas")
    def advise(self) -> Recommendation:
        return Recommendation(1, "Odd")


def odd() -> Registry:
    made = Registry()
    made.add("odd", type("plugin", (), {"register_strategies": staticmethod(hookimpl(lambda: [Odd]))}))
    made.problems.append("plugin rotten: ImportError: no licence")
    return made


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param(
            'type = "odd"', "reads() must give names of series, or None, raised RuntimeError: no idea", id="raises"
        ),
        pytest.param(
            'type = "odd"\nhow = "word"', 'reads() must give names of series, or None, gave "cpu"', id="a-word"
        ),
        pytest.param(
            'type = "odd"\nhow = "broken"', "must be something its type can check, raised KeyError: 'how'", id="check"
        ),
    ],
)
def test_an_unusable_strategy_is_reported_like_a_mistake(tmp_path: Path, table: str, problem: str) -> None:
    found = problem_of(tmp_path, WORKLOAD + BOUNDS + f"[[strategy]]\n{table}\n", odd())
    assert found == f"web.toml: strategy[0]: {problem}"


def test_plugin_that_exits_while_decoding_options_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text(WORKLOAD + BOUNDS + '[[strategy]]\ntype = "odd"\nhow = "leaves"\n')
    policies, errors = read_policies(tmp_path, odd())
    assert (policies, [str(error) for error in errors]) == (
        [],
        [f"{tmp_path / 'web.toml'}: its plugin must answer, raised SystemExit: 3"],
    )


def test_each_policy_file_is_read_and_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "web.toml").write_text(VALID)
    (tmp_path / "pool.toml").write_text('[pool]\n[[strategy]]\ntype = "filters"\n')
    (tmp_path / "bad.toml").write_text('mdoe = "act"\n' + VALID)
    (tmp_path / "broken.toml").write_text("mode = \n")
    parsing = Mock(wraps=tomli.loads)
    monkeypatch.setattr(tomli, "loads", parsing)
    policies, errors = read_policies(tmp_path, REGISTRY)
    assert [policy.name for policy in policies] == ["web", "pool"]
    assert len(errors) == 2
    assert sorted(call.args[0] for call in parsing.call_args_list) == sorted(
        path.read_text() for path in policy_files(tmp_path)
    )


def test_missing_plugin_is_reported_with_its_reason_where_used(tmp_path: Path) -> None:
    found = problem_of(tmp_path, WORKLOAD + BOUNDS + '[[strategy]]\ntype = "rotten"\n', odd())
    assert found == (
        'web.toml: strategy[0].type: must be one of odd, is "rotten"; plugin rotten: ImportError: no licence'
    )
