"""Which volumes claims get on which node, beside the same by hand: node by node, claim by claim."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as some

from elasticd.kit import match_claims
from elasticd.model.pod_spec import Expression, Operator, Term
from elasticd.model.volumes import StorageClass, Volume, VolumeClaim
from elasticd.model.workload import Node
from tests.kit.pools import columns, node
from tests.kit.volumes import ZONE, claim, storage, volume

HOST = "kubernetes.io/hostname"
OPERATORS: tuple[Operator, ...] = ("In", "In", "NotIn", "Exists")
LABELS = {ZONE: "abc", HOST: ("n0", "n1", "n2", "n3")}


@some.composite
def terms(draw: some.DrawFn) -> tuple[Term, ...] | None:
    """The node affinity of a volume."""

    def rule() -> Expression:
        key, operator = draw(some.sampled_from(list(LABELS))), draw(some.sampled_from(OPERATORS))
        values = draw(some.lists(some.sampled_from(list(LABELS[key])), min_size=1, max_size=2, unique=True))
        return Expression(key, operator, () if operator == "Exists" else tuple(values))

    if draw(some.booleans()):
        return None
    sizes = draw(some.lists(some.integers(0, 2), min_size=1, max_size=2))
    return tuple([Term(tuple([rule() for _ in range(size)])) for size in sizes])


@some.composite
def scenes(draw: some.DrawFn) -> tuple[list[Node], list[Volume], list[VolumeClaim], StorageClass]:
    """Nodes, volumes of different sizes, claims of different sizes, and their class."""
    nodes = [
        node(name, labels={HOST: name} | ({ZONE: zone} if (zone := draw(some.sampled_from(["", *"abc"]))) else {}))
        for name in ("n0", "n1", "n2")
    ]
    owners = some.sampled_from([None, None, None, ("shop", "c0", ""), ("shop", "c1", "uid-c1"), ("shop", "x", "")])
    sizes = draw(some.lists(some.integers(1, 6), max_size=5, unique=True))
    volumes = [
        volume(f"pv{size}", size, terms=draw(terms()), claim=draw(owners), available=draw(some.integers(0, 9)) > 0)
        for size in sizes
    ]
    wanted = draw(some.lists(some.integers(1, 6), min_size=1, max_size=3, unique=True))
    selected = some.sampled_from(["", "", "", "n1"])
    claims = [claim(f"c{index}", size, node=draw(selected)) for index, size in enumerate(wanted)]
    made_in = draw(some.one_of(some.none(), some.just((Term((Expression(ZONE, "In", ("a",)),)),))))
    provisioner = draw(some.sampled_from(["csi", "kubernetes.io/no-provisioner"]))
    return nodes, volumes, claims, StorageClass("fast", provisioner, waits=True, topologies=made_in)


def by_hand(
    place: Node, volumes: Sequence[Volume], claims: Sequence[VolumeClaim], made: StorageClass
) -> dict[str, str] | None:
    """The volume that each claim gets on a node, empty: one that is provisioned; None: not all get one."""
    got: dict[str, str] = {}
    able = made.provisioner == "csi" and (
        made.topologies is None or any(term.matches("", place.labels) for term in made.topologies)
    )
    for one in sorted(claims, key=lambda each: each.size):
        found = "" if one.node else _smallest(place, volumes, one, set(got.values()))
        if (not found and not able) or one.node not in ("", place.name):
            return None
        got[one.name] = found
    return got


def _smallest(place: Node, volumes: Sequence[Volume], one: VolumeClaim, taken: set[str]) -> str:
    def reaches(each: Volume) -> bool:
        return each.terms is None or any(term.matches("", place.labels) for term in each.terms)

    in_order = sorted(volumes, key=lambda each: each.size)
    for each in in_order:
        if each.kept_for(one) and each.serves(one):
            return each.name if reaches(each) else ""
    fitting = [each.name for each in in_order if each.suits(one) and reaches(each) and each.name not in taken]
    return fitting[0] if fitting else ""


@given(scenes())
def test_claims_get_volumes_as_one_would_by_hand(
    scene: tuple[list[Node], list[Volume], list[VolumeClaim], StorageClass],
) -> None:
    nodes, volumes, claims, made = scene
    view = columns(nodes, storage=storage(*volumes, *claims, made))
    match = match_claims(claims, view)
    for index, place in enumerate(view.nodes):
        expected = by_hand(place, volumes, claims, made)
        assert bool(match.fits[index]) == (expected is not None)
        if expected is not None:
            assert {one.name: got.name if got else "" for one, got in match.at(index)} == expected
