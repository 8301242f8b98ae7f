"""Policies as a user writes them, and what reading them says."""

import os
from pathlib import Path
from typing import Any

import pytest

from elasticd.base.errors import ConfigError
from elasticd.config import load_policy
from elasticd.registry import Registry, discover

REGISTRY = discover()
WORKLOAD = '[workload]\nnamespace = "shop"\nname = "web"\n'
BOUNDS = "[replicas]\nmax = 5\n"
HPA = '[[strategy]]\ntype = "hpa"\n'
VALID = WORKLOAD + BOUNDS + HPA


def policy(tmp_path: Path, text: str | bytes, name: str = "web.toml", registry: Registry = REGISTRY) -> Any:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_policy(path, registry)


def problem_of(tmp_path: Path, text: str | bytes, registry: Registry = REGISTRY) -> str:
    with pytest.raises(ConfigError) as caught:
        policy(tmp_path, text, registry=registry)
    assert caught.value.exit_code == 78
    return str(caught.value).replace(f"{tmp_path}{os.sep}", "")


NODE = '[cluster]\ntype = "simulated"\nnodes = [{ name = "n", cpu = "4", memory = "8Gi" }]\n'
