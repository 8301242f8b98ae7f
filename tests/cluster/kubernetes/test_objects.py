"""What commands ask an API server for, objects of any kind and rights: an answer that is none is an error."""

import pytest

from elasticd.cluster.kubernetes.access import Access, Asked
from elasticd.cluster.kubernetes.objects import Objects
from elasticd.cluster.kubernetes.session import ApiError, Session
from elasticd.cluster.kubernetes.watch.discovery import PODS, Discovery
from elasticd.model.rights import Right
from tests.cluster.kubernetes.fake import NO_LIST, FakeApi, Say, page

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
LIST = "/api/v1/namespaces/shop/pods"
NO_OBJECT = [
    pytest.param(b"<html>sign in</html>", id="a page"),
    pytest.param(b"", id="nothing"),
    pytest.param(b'{"metadata": {"na', id="cut"),
    pytest.param(b"[]", id="a list"),
]


@pytest.mark.parametrize("body", [*NO_OBJECT, pytest.param(b'{"status": null}', id="without a status")])
async def test_a_review_that_is_none_grants_nothing(api: FakeApi, session: Session, body: bytes) -> None:
    """As of a gateway that answers a POST by its page for signing in."""
    api.on("POST", REVIEWS, Say(201, body))
    with pytest.raises(ApiError, match=r"is no SelfSubjectAccessReview|before the API server"):
        await Access(session, "1.36").allowed([Asked(Right("get", "", "pods"), "shop")])


@pytest.mark.parametrize("body", NO_LIST.values(), ids=NO_LIST)
async def test_json_that_is_no_list_is_no_empty_list(api: FakeApi, session: Session, body: bytes) -> None:
    api.on("GET", LIST, Say(200, body))
    with pytest.raises(ApiError, match="is no list"):
        await Objects(session, "1.36").list(PODS, "shop")


@pytest.mark.parametrize("body", NO_LIST.values(), ids=NO_LIST)
async def test_discovery_that_says_nothing_is_an_error(api: FakeApi, session: Session, body: bytes) -> None:
    """And not that a kind, or its group, is not served."""
    for path in ("/apis/apps/v1", "/apis/apps", "/apis"):
        api.on("GET", path, Say(200, body))
    discovery = Discovery(session)
    with pytest.raises(ApiError, match=r"is no APIResourceList|before the API server"):
        await discovery.resource(("apps/v1", "Deployment"))
    with pytest.raises(ApiError, match=r"is no APIGroup|before the API server"):
        await discovery.preferred("apps")
    with pytest.raises(ApiError, match=r"is no APIGroup|before the API server"):
        await discovery.serves("apps", "Deployment")
    with pytest.raises(ApiError, match=r"is no APIGroupList|before the API server"):
        await discovery.kinds_of("deployments")


@pytest.mark.parametrize("body", [*NO_OBJECT, pytest.param(b'{"items": 3}', id="of another shape")])
async def test_an_object_that_is_none_is_an_error(api: FakeApi, session: Session, body: bytes) -> None:
    for method, path in (("GET", LIST), ("GET", f"{LIST}/web"), ("PATCH", f"{LIST}/web")):
        api.on(method, path, Say(200, body))
    objects = Objects(session, "1.36")
    with pytest.raises(ApiError, match="is no list"):
        await objects.list(PODS, "shop")
    with pytest.raises(ApiError, match=r"is no object|before the API server"):
        await objects.get(PODS, "shop", "web")
    with pytest.raises(ApiError, match=r"is no object|before the API server"):
        await objects.patch(PODS, "shop", "web", {})


async def test_objects_are_listed_page_by_page(api: FakeApi, session: Session) -> None:
    api.on("GET", LIST, page({"metadata": {"name": "a"}}, more="next"), page({"metadata": {"name": "b"}}))
    objects = await Objects(session, "1.36").list(PODS, "shop")
    assert [each["metadata"]["name"] for each in objects] == ["a", "b"]
    assert [seen.query.get("continue") for seen in api.asked("GET", LIST)] == [None, "next"]
