"""Where the programs are looked for, and what is said when they are missing."""

import hashlib
import lzma
import os
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
    monkeypatch.delenv("KUBE", raising=False)
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


def pack(folder: Path, version: str, damaged: str = "") -> None:
    """Compressed programs of a version; one may not be what the sums say."""
    folder.mkdir(parents=True)
    sums = []
    for name in fetch.BUILT:
        program = f"#!/bin/sh\necho {'Kubernetes' if name == 'kube-apiserver' else name} v{version}\n".encode()
        (folder / f"{name}.xz").write_bytes(lzma.compress(program + b"\n" * (name == damaged)))
        sums.append(f"{hashlib.sha256(program).hexdigest()}  {name}\n")
    (folder / "SHA256SUMS").write_text("".join(sums))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with nothing beside it, an empty cache and an etcd on PATH; asked for is 1.99.7."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("KUBE_BINARIES", raising=False)
    monkeypatch.setenv("KUBE", "1.99.7")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    put_programs(tmp_path / "bin", "etcd")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(fetch, "CHECKOUT", tmp_path / "checkout")
    return tmp_path / "checkout"


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param("kube-1.99", id="beside the checkout"),
        pytest.param("binaries/kube-1.99", id="in a folder beside it"),
        pytest.param("elsewhere/given/any", id="given"),
    ],
)
def test_another_version_is_unpacked_from_compressed_binaries(
    checkout: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(checkout.parent / folder, "1.99.7")
    if "given" in folder:
        monkeypatch.setenv("KUBE_BINARIES", str(checkout.parent / folder))
    fetch.fetch_control_plane()
    found = fetch.locate()
    assert found is not None
    assert found.apiserver == checkout.parent / "cache" / "elasticd" / "kube-1.99.7" / "kube-apiserver"
    assert fetch.version_of(found.apiserver) == (1, 99, 7)
    assert fetch.missing_programs() == []


@pytest.mark.parametrize(
    ("packed", "error", "told"),
    [
        pytest.param({}, fetch.NoBinaries, "no compressed binaries of Kubernetes 1.99.7", id="none"),
        pytest.param({"version": "1.99.6"}, fetch.CannotFetch, "is of Kubernetes 1.99.6, not of 1.99.7", id="another"),
        pytest.param({"version": "1.99.7", "damaged": "kube-scheduler"}, fetch.CannotFetch, "SHA256SUMS", id="damaged"),
    ],
)
def test_what_cannot_be_unpacked_leaves_no_cache(
    checkout: Path, packed: dict[str, str], error: type[Exception], told: str
) -> None:
    if packed:
        pack(checkout.parent / "kube-1.99", **packed)
    with pytest.raises(error, match=told):
        fetch.fetch_control_plane()
    assert list((checkout.parent / "cache" / "elasticd").iterdir()) == []


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
