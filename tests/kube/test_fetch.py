"""Where the programs are looked for, and what is said when they are missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kube import fetch
from tests.kube.control_plane import ControlPlane, NoControlPlane


def put_programs(folder: Path, *names: str) -> None:
    """Files that can be executed, in a folder."""
    for name in names:
        (folder / name).touch(mode=0o755)


def test_cache_is_under_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fetch.assets_folder() == tmp_path / "elasticd" / f"kube-{fetch.VERSION}"
    assert fetch.locate() is None
    assert fetch.missing_programs() == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]


def test_folder_of_envtest_needs_only_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    put_programs(tmp_path, "kube-apiserver")
    assert fetch.locate() is None
    put_programs(tmp_path, "etcd")
    expected = fetch.Binaries(tmp_path / "etcd", tmp_path / "kube-apiserver", controller_manager=None, scheduler=None)
    assert fetch.locate() == expected
    assert fetch.missing_programs() == []


def test_check_says_what_is_missing_and_changes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, fetch.__file__, "--check"]
    done = subprocess.run(
        command, env={"KUBEBUILDER_ASSETS": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.startswith(f"missing: etcd, looked for in {tmp_path}\n")
    assert list(tmp_path.iterdir()) == []


async def test_control_plane_says_how_it_is_got(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(NoControlPlane, match=r"python3 tests/kube/fetch\.py"):
        async with ControlPlane(tmp_path / "plane"):
            pass
    put_programs(tmp_path, "etcd", "kube-apiserver")
    with pytest.raises(NoControlPlane, match="no kube-controller-manager or kube-scheduler"):
        async with ControlPlane(tmp_path / "plane"):
            pass


def test_sources_of_source_packages_are_added_to_a_copy(tmp_path: Path) -> None:
    configured, copy = tmp_path / "apt", tmp_path / "copy"
    (configured / "sources.list.d").mkdir(parents=True)
    (configured / "sources.list").write_text("# main\ndeb http://one.test stable main\n")
    (configured / "sources.list.d" / "two.sources").write_text("Types: deb\nURIs: http://two.test\n")
    (configured / "sources.list.d" / "three.list.disabled").write_text("deb http://three.test stable main\n")
    fetch.write_sources(copy, configured)
    assert {path.name: path.read_text() for path in copy.iterdir()} == {
        "sources.list": "# main\ndeb http://one.test stable main\ndeb-src http://one.test stable main\n",
        "two.sources": "Types: deb deb-src\nURIs: http://two.test\n",
    }
    assert (configured / "sources.list").read_text() == "# main\ndeb http://one.test stable main\n"


def test_no_service_starts_while_packages_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(fetch, "POLICY_RC_D", policy)
    with fetch.no_service_starts(sudo=[]):
        assert subprocess.run([policy], check=False).returncode == 101
    assert not policy.exists()
    policy.write_text("exit 0")
    with pytest.raises(fetch.CannotFetch, match="install by hand"), fetch.no_service_starts(sudo=[]):
        pass
    assert policy.read_text() == "exit 0"
