"""Policies are read with their defaults, and contradictions and byte-order marks are met."""

from pathlib import Path
from types import ModuleType

import pytest

from elasticd.api import Recommendation, Strategy, hookimpl
from elasticd.model.policy import Bounds, Policy, Select, Target
from elasticd.testing import registry as registry_of
from tests.kit.configs import BOUNDS, HPA, REGISTRY, VALID, WORKLOAD, policy, problem_of


def test_a_policy_is_read_with_its_defaults(tmp_path: Path) -> None:
    found = policy(tmp_path, VALID)
    assert (found.name, found.mode, found.interval, found.jitter, found.max_age) == ("web", "observe", 30.0, 0.1, 120.0)
    assert (found.workload, found.select) == (Target("shop", "web"), None)
    assert (found.replicas, found.limits) == (Bounds(5, 1), ())
    assert found.strategies == (REGISTRY.strategies["hpa"].type(),)


def test_a_policy_is_read_as_it_is_written(tmp_path: Path) -> None:
    text = 'mode = "act"\ninterval = 5\n[select]\nnamespaces = ["a", "b"]\nlabels = { tier = "web" }\n' + BOUNDS + HPA
    found = policy(tmp_path, text + '[[limit]]\ntype = "cooldown"\nafter_up = 7\n')
    assert (found.mode, found.interval) == ("act", 5.0)
    assert found.select == Select(("a", "b"), {"tier": "web"})
    assert found.limits[0].after_up == 7


class Picky(Strategy, tag="picky", frozen=True):
    """Does not go with some policies."""

    says: str = ""

    def reads(self) -> tuple[str, ...]:
        return ()

    def check(self, policy: Policy) -> str | None:
        if self.says == "raise":
            raise KeyError("bounds")
        return f"{self.says}, max is {policy.replicas.max}" if self.says else None

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(1, "Picky")


@pytest.mark.parametrize(
    ("says", "line"),
    [
        ("says: must be other", "strategy[0].says: must be other, max is 5"),
        ("must be other", "strategy[0]: must be other, max is 5"),
        ("two: lines\\nare one", "strategy[0].two: lines are one, max is 5"),
        ("raise", "strategy[0]: must be something its type can check, raised KeyError: 'bounds'"),
    ],
)
def test_option_that_contradicts_the_rest_of_the_policy_is_refused(tmp_path: Path, says: str, line: str) -> None:
    plugin = ModuleType("picky")
    vars(plugin)["register_strategies"] = hookimpl(lambda: [Picky])
    text = WORKLOAD + BOUNDS + f'[[strategy]]\ntype = "picky"\nsays = "{says}"\n'
    assert problem_of(tmp_path, text, registry_of(plugin)) == f"web.toml: {line}"
    assert policy(tmp_path, text.replace(says, ""), registry=registry_of(plugin)).strategies == (Picky(),)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert policy(tmp_path, b"\xef\xbb\xbf" + VALID.encode()).name == "web"
