"""Kinds as people write them."""

import pytest

from elasticd.model.kinds import kind_of, wrong_kind


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Deployment", "Deployment"),
        ("deployment", "Deployment"),
        ("DEPLOYMENTS", "Deployment"),
        ("deploy", "Deployment"),
        ("deployments.apps", "Deployment"),
        ("deployment.v1.apps", "Deployment"),
        ("sts", "StatefulSet"),
        ("rs", "ReplicaSet"),
        ("rc", "ReplicationController"),
        ("job", "Job"),
        ("po", "Pod"),
        ("Rollout", "Rollout"),
        ("rollout", "rollout"),
        ("", ""),
    ],
)
def test_a_word_means_a_kind_as_kubectl_reads_it(word: str, kind: str) -> None:
    assert kind_of(word) == kind


@pytest.mark.parametrize("api_version", ["", "x" * 10_000, "apps/", "/v1", "a.b", "a.b/", "a.b/1", "A.b/v1", "a..b/v1"])
def test_a_version_that_is_none_is_refused_whatever_it_is(api_version: str) -> None:
    told = wrong_kind(api_version, "Deployment")
    assert told is not None
    assert told[0] == "api_version"
