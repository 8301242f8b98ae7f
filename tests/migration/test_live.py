"""`elasticd import` of objects that an API server has: versions, pages, names, and what it says where it cannot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.kit.daemons import called
from tests.migration.api_servers import JsonHandler, served
from tests.migration.manifests import Manifest, hpa

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
KIND = {"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler", "namespaced": True, "verbs": []}


def listed(name: str) -> Manifest:
    """An HPA as a list has it: without kind and apiVersion."""
    table = hpa([CPU])
    return {"metadata": {**table["metadata"], "name": name}, "spec": table["spec"]}


class Server(JsonHandler):
    """An API server that has HPAs in v2beta2 alone, one on each page."""

    def get(self) -> None:
        url = urlsplit(self.path)
        path, query = url.path, parse_qs(url.query)
        base = "/apis/autoscaling/v2beta2"
        answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.20.2"},
            base: {"kind": "APIResourceList", "resources": [KIND]},
            "/apis": {"kind": "APIGroupList", "groups": []},
        }
        if path.endswith("/horizontalpodautoscalers"):
            last = "continue" in query
            meta = {} if last else {"continue": "more"}
            page = {"kind": "List", "metadata": meta, "items": [listed("b" if last else "a")]}
            answers[path] = page
        if path.startswith(f"{base}/namespaces/denied/"):
            self.answer(403, {"kind": "Status", "reason": "Forbidden", "message": "you may not"})
        else:
            self.answer(200 if path in answers else 404, answers.get(path, {"kind": "Status", "message": "no such"}))


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """An elasticd.toml whose cluster this server is."""
    with served(Server, tmp_path) as path:
        yield path


def test_all_pages_are_read_by_the_clusters_rules(
    capsys: pytest.CaptureFixture[str], config: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, text, err = called(capsys, "import", "hpa", "--all-namespaces", "--config", config, "--out", out)
    assert (code, text, err) == (0, f"{out}: 2 policies\n", "")
    assert sorted(path.name for path in out.iterdir()) == ["shop.a.toml", "shop.b.toml"]
    assert 'rules = "1.20"' in (out / "shop.a.toml").read_text()


def test_objects_are_named_in_a_namespace(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    code, text, _ = called(capsys, "import", "hpa", "-n", "shop", "b", "--config", config)
    assert (code, text.count("# Made from HorizontalPodAutoscaler shop/b ")) == (0, 1)
    code, again, _ = called(capsys, "import", "hpa", "b", "-n", "shop", "--config", config)
    assert (code, again) == (0, text)
    code, _, err = called(capsys, "import", "hpa", "-n", "shop", "c", "--config", config)
    assert (code, err) == (69, "namespace shop: has no HorizontalPodAutoscaler c\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["hpa", "-n", "denied"], "HorizontalPodAutoscalers cannot be listed: 403", id="right"),
        pytest.param(["vpa", "-n", "shop"], "does not serve autoscaling.k8s.io/v1/Vertical", id="kind"),
    ],
)  # fmt: skip
def test_what_a_cluster_refuses_is_one_line(
    capsys: pytest.CaptureFixture[str], config: Path, words: list[str], problem: str
) -> None:
    code, text, err = called(capsys, "import", *words, "--config", config)
    assert (code, text, err.count("\n")) == (69, "", 1)
    assert problem in err
