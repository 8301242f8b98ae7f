"""The shipped manifests of config/kubernetes, and their rights given to a user of the tests' control plane.

Knows as much of kustomize as the folder uses; tests/config/test_config_examples.py compares with kustomize itself.
It must not know what the daemon does with its rights.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.kube.client import JSON, ApiError, Client, wait_until
from tests.kube.control_plane import ControlPlane

FOLDER = Path(__file__).resolve().parents[2] / "config" / "kubernetes"
CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
# Where the workloads of the examples are whose rights are given namespace by namespace.
EXAMPLE = "media"
# Where the daemon itself is.
HOME = "elasticd"


def shipped(folder: Path = FOLDER) -> list[JSON]:
    """Every object that `kubectl apply -k` would apply, but for the hashes in the ConfigMaps' names."""
    recipe = yaml.safe_load((folder / "kustomization.yaml").read_text())
    objects = [one for name in recipe["resources"] for one in documents(folder / name)]
    objects += [_config_map(folder, made) for made in recipe["configMapGenerator"]]
    images = {one["name"]: f"{one['newName']}:{one['newTag']}" for one in recipe["images"]}
    for one in objects:
        if one["kind"] not in CLUSTER_WIDE:
            one["metadata"]["namespace"] = recipe["namespace"]
        labels = one["metadata"].setdefault("labels", {})
        for added in recipe["labels"]:
            labels.update(added["pairs"])
        if one["kind"] == "Deployment":
            for container in one["spec"]["template"]["spec"]["containers"]:
                container["image"] = images[container["image"]]
    return objects


def documents(path: Path) -> Iterator[JSON]:
    """The objects of a file."""
    yield from (one for one in yaml.safe_load_all(path.read_text()) if one)


def _config_map(folder: Path, made: JSON) -> JSON:
    data = {Path(name).name: (folder / name).read_text() for name in made["files"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": made["name"]}, "data": data}


def only(kind: str) -> JSON:
    """The one shipped object of a kind."""
    (found,) = [one for one in shipped() if one["kind"] == kind]
    return found


@dataclass(frozen=True)
class Rights:
    """A user who may do what the daemon's service account may; `namespace` stands for the daemon's own."""

    user: str
    namespace: str
    kubeconfig: Path


@asynccontextmanager
async def shipped_rights(plane: ControlPlane, user: str, namespace: str) -> AsyncIterator[Rights]:
    """Give the shipped ClusterRole and, in the namespace (which must exist), the shipped Role to a user."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    async with plane.client() as admin:
        made = [one for role in ("ClusterRole", "Role") for one in _granted(role, subject, namespace)]
        paths = [await admin.path_of(one) for one in made]
        try:
            for path, one in zip(paths, made, strict=True):
                await admin.create(path.rpartition("/")[0], one)
            await _in_force(plane, user)
            yield Rights(user, namespace, plane.kubeconfig(user))
        finally:
            for path in paths:
                await _delete(admin, path)
            await _no_longer(plane, user)


def _granted(role: str, subject: JSON, namespace: str) -> list[JSON]:
    """A shipped role and its binding; the cluster-wide ones under a name that is theirs alone."""
    granted, binding = only(role), only(f"{role}Binding")
    name = f"{granted['metadata']['name']}-{namespace}"
    granted["metadata"] |= {"name": name}
    binding["metadata"] |= {"name": name}
    binding["roleRef"] |= {"name": name}
    binding["subjects"] = [subject]
    if role == "Role":
        granted["metadata"]["namespace"] = binding["metadata"]["namespace"] = namespace
    return [granted, binding]


@asynccontextmanager
async def granted_from(plane: ControlPlane, file: Path, user: str, suffix: str) -> AsyncIterator[None]:
    """Give what a file of roles and bindings gives the service account to a user, under names of its own; what it
    gives in the namespace of the examples, or the daemon's own, in the one that the suffix names."""
    made = list(documents(file))
    for one in made:
        one["metadata"]["name"] += f"-{suffix}"
        if one["metadata"].get("namespace") in (EXAMPLE, HOME):
            one["metadata"]["namespace"] = suffix
        if "subjects" in one:
            one["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
            one["roleRef"]["name"] += f"-{suffix}"
    async with plane.client() as admin:
        paths = [await admin.path_of(one) for one in made]
        try:
            for path, one in zip(paths, made, strict=True):
                await admin.create(path.rpartition("/")[0], one)
            yield
        finally:
            for path in paths:
                await _delete(admin, path)


async def _in_force(plane: ControlPlane, user: str) -> None:
    """The API server takes a moment to see new roles and bindings."""
    async with plane.client(user) as client:
        await wait_until(lambda: client.get("/api/v1/nodes"), what=f"{user} may list nodes")


async def _no_longer(plane: ControlPlane, user: str) -> None:
    """Nor does it take them back at once, and the next test may be about having none."""

    async def refused() -> bool:
        try:
            await client.get("/api/v1/nodes")
        except ApiError as error:
            return error.status == 403
        return False

    async with plane.client(user) as client:
        await wait_until(refused, what=f"{user} may no longer list nodes")


async def _delete(client: Client, path: str) -> None:
    try:
        await client.delete(path)
    except ApiError as error:
        if error.status != 404:
            raise
