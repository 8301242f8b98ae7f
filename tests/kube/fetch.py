#!/usr/bin/env python3
"""Finds the programs that the tests under tests/kube run, and gets those that are missing.

Knows where they are looked for (KUBEBUILDER_ASSETS, else the project's cache of the version that KUBE names),
and how they are got.  Kubernetes 1.20.2, the default, comes from Debian 12: etcd and Go are unpacked from its
packages, Kubernetes is built from its source package.  Any other version is unpacked from compressed binaries
that lie beside the checkout.  The MQTT broker, Prometheus, RabbitMQ, Redis and Chromium are installed.  Needs no
container engine, and no root except for those.  Standard library only, since it runs outside any virtual environment.
It must not know what the tests do with the programs.

    python3 tests/kube/fetch.py            get what is missing
    python3 tests/kube/fetch.py --check    say what is missing, exit 1 if anything is
    KUBE=1.36.2 python3 tests/kube/fetch.py

Compressed binaries are a folder kube-MAJOR.MINOR that holds kube-apiserver.xz, kube-controller-manager.xz,
kube-scheduler.xz and SHA256SUMS (of the programs, as sha256sum writes them).  KUBE_BINARIES names it; else it is
looked for in the folders beside the checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VERSION = "1.20.2"  # the one that Debian 12 has the source of
CHECKOUT = Path(__file__).resolve().parents[2]
HOW_TO_GET = "python3 tests/kube/fetch.py"
REQUIRED = ("etcd", "kube-apiserver")
BUILT = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Each with a program of its own.
DEBIAN_PACKAGES = {
    "mosquitto": "mosquitto",
    "mosquitto-clients": "mosquitto_pub",
    "prometheus": "prometheus",
    "rabbitmq-server": "rabbitmq-server",
    "redis-server": "redis-server",
    "chromium": "chromium",
    "chromium-driver": "chromedriver",
    "kubernetes-client": "kubectl",
}
UNPACKED = ("etcd-server", "golang-1.19-go", "golang-1.19-src", "golang-github-modern-go-reflect2-dev")
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
POLICY_RC_D = Path("/usr/sbin/policy-rc.d")
STARTED = time.monotonic()


class CannotFetch(Exception):
    """What is missing and what the reader can do about it, in one line."""


class NoBinaries(CannotFetch):
    """Nothing to unpack a version from: exit code 3."""


@dataclass(frozen=True)
class Binaries:
    """Where the control plane's programs are; the last two are optional in envtest's convention."""

    etcd: Path
    apiserver: Path
    controller_manager: Path | None
    scheduler: Path | None


def wanted() -> str:
    """The version that is asked for."""
    return os.environ.get("KUBE") or VERSION


def cache_of(version: str) -> Path:
    """The project's own folder of a version's programs."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "elasticd" / f"kube-{version}"


def assets_folder() -> Path:
    """The folder that holds the programs, or would."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return Path(assets)
    return cache_of(wanted())


def locate() -> Binaries | None:
    """The control plane's programs, or None where etcd or the API server is missing."""
    folder = assets_folder()
    if not all(os.access(folder / name, os.X_OK) for name in REQUIRED):
        return None
    manager, scheduler = folder / "kube-controller-manager", folder / "kube-scheduler"
    return Binaries(
        etcd=folder / "etcd",
        apiserver=folder / "kube-apiserver",
        controller_manager=manager if manager.exists() else None,
        scheduler=scheduler if scheduler.exists() else None,
    )


def version_of(apiserver: Path) -> tuple[int, ...]:
    """Major, minor and patch version of an API server, as it tells itself."""
    printed = subprocess.run([apiserver, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", printed)[:3]))


def find_program(name: str) -> str | None:
    """The path of a system program; a user's PATH often lacks sbin, where Debian puts mosquitto."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(SYSTEM_FOLDERS))


def missing_programs() -> list[str]:
    """The control plane's programs that are not there; a folder of the user's own needs only two of them."""
    folder = assets_folder()
    names = REQUIRED if os.environ.get("KUBEBUILDER_ASSETS") else ("etcd", *BUILT)
    return [name for name in names if not os.access(folder / name, os.X_OK)]


def missing_packages() -> list[str]:
    """The Debian packages whose program is not on this machine."""
    return [package for package, program in DEBIAN_PACKAGES.items() if find_program(program) is None]


def say(text: str) -> None:
    """One line of progress, with the seconds since the start."""
    print(f"[{time.monotonic() - STARTED:4.0f} s] {text}", flush=True)


def run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Run a command, quiet unless it fails; then its last lines are the message."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        raise CannotFetch(f"{' '.join(command[:6])} failed with exit code {done.returncode}:\n{tail}")


# Debian's archive, read without changing the machine's own configuration of apt.


def write_sources(parts: Path, configured: Path = Path("/etc/apt")) -> None:
    """Copies of the configured package sources that also name the source packages."""
    parts.mkdir()
    for path in [configured / "sources.list", *(configured / "sources.list.d").glob("*")]:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        lines = path.read_text().splitlines()
        if path.suffix == ".sources":
            lines = ["Types: deb deb-src" if line.startswith("Types:") else line for line in lines]
        else:
            lines += ["deb-src" + line[3:] for line in lines if line.startswith(("deb ", "deb\t"))]
        (parts / path.name).write_text("\n".join(lines) + "\n")


def private_apt(folder: Path) -> list[str]:
    """The options that make apt use only files under the folder."""
    write_sources(folder / "sources")
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    settings = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": folder / "sources",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        # The sandbox user of apt may not write to a folder of ours; signatures are checked all the same.
        "APT::Sandbox::User": "",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def download(work: Path, packages: Sequence[str], source: str = "") -> Path:
    """Download packages, and the source of one, into the work folder; gives the folder that holds them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise CannotFetch("not a Debian machine: set KUBEBUILDER_ASSETS to a folder that setup-envtest filled")
    apt_folder, downloads = work / "apt", work / "downloads"
    apt_folder.mkdir()
    downloads.mkdir()
    apt = ["apt-get", "-q", *private_apt(apt_folder)]
    say("reading the package lists")
    run([*apt, "update"])
    say(f"downloading {', '.join(packages)}" + (f" and the source of {source}" if source else ""))
    run([*apt, "download", *packages], cwd=downloads)
    if source:
        run([*apt, "source", "--download-only", source], cwd=downloads)
    return downloads


def unpack_packages(work: Path, downloads: Path) -> Path:
    """Unpack the Debian packages; gives the root under which their files are."""
    root = work / "root"
    for package in sorted(downloads.glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(root)])
    return root


def download_sources(work: Path) -> Path:
    """Download what Kubernetes is built from."""
    downloads = download(work, UNPACKED, "kubernetes")
    # Debian calls it 1.20.5+really1.20.2, since it went back after a mistaken upload.
    if not list(downloads.glob(f"kubernetes_*{VERSION}.orig.tar.*")):
        raise CannotFetch(f"these package sources have no source of Kubernetes {VERSION}; Debian 12 has")
    return downloads


def unpack(work: Path, downloads: Path) -> tuple[Path, Path]:
    """Unpack the downloads; gives the root of the packages and the tree of Kubernetes."""
    say("unpacking")
    root, gopath = unpack_packages(work, downloads), work / "gopath"
    source = gopath / "src" / "k8s.io"
    source.mkdir(parents=True)
    with tarfile.open(next(downloads.glob("kubernetes_*.orig.tar.*"))) as archive:
        # apt checked the signature; the attribute, unlike the argument, is harmless before Python 3.11.4.
        archive.extraction_filter = lambda member, _: member
        archive.extractall(source)
    tree = next(path for path in source.iterdir() if path.is_dir()).rename(source / "kubernetes")
    replace_reflect2(root, tree)
    return root, tree


def replace_reflect2(root: Path, tree: Path) -> None:
    """Take Debian's reflect2 for the vendored one.

    That one knows the layout of maps before Go 1.18: with it the API server crashes when it reads the
    metadata of a custom resource.
    """
    name = "github.com/modern-go/reflect2"
    shutil.rmtree(tree / "vendor" / name)
    shutil.copytree(root / "usr/share/gocode/src" / name, tree / "vendor" / name)


# Kubernetes, from source to three programs.


def tagged_packages(tree: Path) -> list[str]:
    """Import paths of the Go packages for which the API server has OpenAPI definitions."""
    found: set[str] = set()
    for folder, names, files in os.walk(tree):
        names[:] = [name for name in names if name not in ("_examples", "sample-apiserver", ".git")]
        sources = (Path(folder, name) for name in files if name.endswith(".go"))
        if any(b"+k8s:openapi-gen=" in source.read_bytes() for source in sources):
            found.add(Path(folder).relative_to(tree).as_posix())
    return sorted("k8s.io/kubernetes/" + path.replace("staging/src/", "vendor/", 1) for path in found)


def generate_openapi(go: list[str], tree: Path, env: dict[str, str]) -> None:
    """Write the one generated file that the source package lacks."""
    generator = tree.parent / "openapi-gen"
    run([*go, "build", "-o", str(generator), "k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen"],
        cwd=tree, env=env)  # fmt: skip
    packages = [word for name in tagged_packages(tree) for word in ("-i", name)]
    run(
        [
            str(generator), *packages,
            "-p", "k8s.io/kubernetes/pkg/generated/openapi", "-O", "zz_generated.openapi",
            "-h", str(tree / "hack/boilerplate/boilerplate.generatego.txt"),
            "-r", str(tree.parent / "violations"), "-o", str(tree.parent.parent),
        ],
        cwd=tree, env=env,
    )  # fmt: skip


def link_flags() -> str:
    """The linker's flags that tell the programs their version: the one they print and the one they serve."""
    major, minor, _ = VERSION.split(".")
    values = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    vendored = "k8s.io/kubernetes/vendor/k8s.io"
    packages = [f"{vendored}/component-base/version", f"{vendored}/client-go/pkg/version"]
    settings = [f"-X {package}.{key}={value}" for package in packages for key, value in values.items()]
    return " ".join(["-s", "-w", *settings])


def build(root: Path, tree: Path, into: Path) -> None:
    """Build the three programs into a folder."""
    goroot = root / "usr/lib/go-1.19"
    gopath = tree.parents[2]
    env = {
        "GOROOT": str(goroot), "GOPATH": str(gopath), "GOCACHE": str(gopath / "cache"), "GOTMPDIR": "",
        "GO111MODULE": "off", "CGO_ENABLED": "0", "GOFLAGS": "", "GOENV": "off",
        "PATH": f"{goroot / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    go = [str(goroot / "bin/go")]
    say("generating the OpenAPI definitions")
    generate_openapi(go, tree, env)
    flags = link_flags()
    for name in BUILT:
        say(f"building {name}")
        run([*go, "build", "-ldflags", flags, "-o", str(into / name), f"k8s.io/kubernetes/cmd/{name}"],
            cwd=tree, env=env)  # fmt: skip


def fetch_control_plane() -> None:
    """Fill the cache if it is not: built beside it and renamed at the end, it is never seen half filled."""
    if not missing_programs():
        return
    if os.environ.get("KUBEBUILDER_ASSETS"):
        raise CannotFetch(f"KUBEBUILDER_ASSETS={assets_folder()} lacks {' and '.join(missing_programs())}")
    cache = assets_folder()
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=cache.parent) as name:
        work = Path(name)
        finished = work / cache.name
        finished.mkdir()
        if wanted() == VERSION:
            build_from_source(work, finished)
        else:
            decompress(work, finished)
        if missing_programs():
            # Not where another fetch was quicker.
            shutil.rmtree(cache, ignore_errors=True)
            finished.rename(cache)
        say("removing the build folder")
    say(f"the control plane {wanted()} is in {cache}")


def build_from_source(work: Path, into: Path) -> None:
    """Make the programs of the version that Debian has the source of."""
    root, tree = unpack(work, download_sources(work))
    shutil.copy2(root / "usr/bin/etcd", into / "etcd")
    build(root, tree, into)


# Any other version, from compressed binaries.


def compressed(version: str) -> Path | None:
    """The folder with a version's compressed binaries, or None where there is none."""
    given = os.environ.get("KUBE_BINARIES")
    name = f"kube-{version.rpartition('.')[0]}"
    folders = [Path(given)] if given else [CHECKOUT.parent / name, *sorted(CHECKOUT.parent.glob(f"*/{name}"))]
    return next((folder for folder in folders if (folder / "SHA256SUMS").exists()), None)


def decompress(work: Path, into: Path) -> None:
    """Unpack the programs of the version that is asked for, and check them; etcd is that of Debian."""
    folder = compressed(wanted())
    if folder is None:
        raise NoBinaries(
            f"no compressed binaries of Kubernetes {wanted()} beside the checkout: set KUBE_BINARIES to their folder, "
            "or KUBEBUILDER_ASSETS to one with etcd, kube-apiserver, kube-controller-manager and kube-scheduler"
        )
    say(f"unpacking Kubernetes {wanted()}")
    sums = {name: digest for digest, name in map(str.split, (folder / "SHA256SUMS").read_text().splitlines())}
    for name in BUILT:
        with lzma.open(folder / f"{name}.xz") as packed, (into / name).open("wb") as program:
            shutil.copyfileobj(packed, program)
        with (into / name).open("rb") as program:
            if hashlib.file_digest(program, "sha256").hexdigest() != sums.get(name):
                raise CannotFetch(f"{folder / name}.xz is not what {folder / 'SHA256SUMS'} says")
        (into / name).chmod(0o755)
    version = ".".join(map(str, version_of(into / "kube-apiserver")))
    if version != wanted():
        raise CannotFetch(f"{folder} is of Kubernetes {version}, not of {wanted()}")
    shutil.copy2(find_etcd(work), into / "etcd")


def find_etcd(work: Path) -> Path:
    """The etcd of this machine or of the other version's cache, else of Debian's package."""
    cached = cache_of(VERSION) / "etcd"
    if found := shutil.which("etcd"):
        return Path(found)
    if os.access(cached, os.X_OK):
        return cached
    return unpack_packages(work, download(work, ["etcd-server"])) / "usr/bin/etcd"


# The MQTT broker, Prometheus, servers of queues, and Chromium.


@contextmanager
def no_service_starts(sudo: list[str]) -> Iterator[None]:
    """While open, installing a package starts no service (Debian's policy-rc.d); restores what was there."""
    if POLICY_RC_D.exists():
        saved = POLICY_RC_D.read_text()
        if "exit 101" in saved:
            yield
            return
        raise CannotFetch(f"{POLICY_RC_D} exists; install by hand: apt-get install {' '.join(missing_packages())}")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "policy-rc.d")
        script.write_text("#!/bin/sh\nexit 101\n")
        run([*sudo, "install", "-m", "755", str(script), str(POLICY_RC_D)])
    try:
        yield
    finally:
        run([*sudo, "rm", "-f", str(POLICY_RC_D)])


def may_install() -> list[str] | None:
    """The prefix that makes a command run as root, or None where nothing does without a question."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    asked = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return ["sudo", "-n"] if asked.returncode == 0 else None


def fetch_packages() -> None:
    """Install the Debian packages that are missing, without starting what they hold."""
    packages = missing_packages()
    if not packages:
        return
    sudo = may_install()
    if sudo is None or shutil.which("apt-get") is None:
        raise CannotFetch(f"not root, and no sudo without a password: apt-get install {' '.join(packages)}")
    say(f"installing {' and '.join(packages)}")
    apt = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
    with no_service_starts(sudo):
        run([*apt, "update"])
        run([*apt, "install", "-y", "--no-install-recommends", *packages])


def main() -> int:
    """Get what is missing; gives the exit code."""
    parser = argparse.ArgumentParser(description="Get the programs that tests/kube runs.")
    parser.add_argument("--check", action="store_true", help="only say what is missing; exit 1 if anything is")
    if parser.parse_args().check:
        lines = [f"{name}, looked for in {assets_folder()}" for name in missing_programs()]
        lines += [f"{name}, Debian package {name}" for name in missing_packages()]
        for line in lines:
            print(f"missing: {line}")
        return 1 if lines else 0
    # So that a build that is told to end removes its folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    codes = [0]
    for fetch in (fetch_control_plane, fetch_packages):
        try:
            fetch()
        except CannotFetch as error:
            print(f"fetch.py: {error}", file=sys.stderr)
            codes.append(3 if isinstance(error, NoBinaries) else 1)
    if not any(codes):
        say("everything is there")
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
