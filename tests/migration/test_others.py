"""ScaledJobs, CronHPAs and VPAs become policies with the strategies jobs, schedule and vertical."""

from typing import Any

import pytest
import tomli

from elasticd.base.errors import ConfigError
from elasticd.migration.cronhpa import cron_of, cron_policy
from elasticd.migration.keda import scaled_job_policy
from elasticd.migration.policy import Imported
from elasticd.migration.vpa import vpa_policy
from tests.migration.manifests import Manifest, cron_hpa, hpa, prometheus, scaled_job, vpa


def table(imported: Imported) -> dict[str, Any]:
    return tomli.loads(imported.text)


QUEUE = prometheus(name="queue")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {"strategy": "default", "calculation": "max", "spare": 0}, id="defaults"),
        pytest.param({"minReplicaCount": 2}, {"strategy": "default", "spare": 2}, id="min: Jobs that wait"),
        pytest.param({"scalingStrategy": {"strategy": "accurate"}}, {"strategy": "accurate"}, id="accurate"),
        pytest.param({"scalingStrategy": {"strategy": "eager"}}, {"strategy": "eager"}, id="eager"),
        pytest.param(
            {"scalingStrategy": {"strategy": "custom", "customScalingQueueLengthDeduction": 1,
                                 "customScalingRunningJobPercentage": "0.5"}},
            {"strategy": "custom", "deduction": 1, "running_percentage": 0.5}, id="custom",
        ),
        pytest.param({"scalingStrategy": {"strategy": "odd"}}, {"strategy": "default"}, id="an unknown one: default"),
        pytest.param({"scalingStrategy": {"multipleScalersCalculation": "sum"}}, {"calculation": "sum"}, id="sum"),
    ],
)  # fmt: skip
def test_a_scaled_jobs_strategy_keeps_its_formula(spec: Manifest, expected: dict[str, Any]) -> None:
    (strategy,) = table(scaled_job_policy(scaled_job(QUEUE, **spec), "", ""))["strategy"]
    assert expected.items() <= strategy.items()
    assert strategy["queue"] == [{"series": "shop.web.queue", "per_job": 10.0, "activation": 0.0}]


def test_a_scaled_job_brings_its_template_and_defaults() -> None:
    made = table(scaled_job_policy(scaled_job(QUEUE), "", ""))
    job, template = made["job"], made["job"].pop("template")
    assert job == {
        "namespace": "shop", "name": "web", "successful_history": 100, "failed_history": 100, "rollout": "default",
    }  # fmt: skip
    assert (made["replicas"], made["interval"]) == ({"min": 0, "max": 100}, 30)
    assert template["spec"]["backoffLimit"] == 4
    assert template["spec"]["template"]["metadata"] == {"labels": {"app": "web"}}, "TOML has no null"


def job(schedule: str, size: int, **more: Any) -> Manifest:
    return {"name": "day", "schedule": schedule, "targetSize": size, **more}


MORNING = {"name": "day", "at": "0 8 * * *", "zone": "Europe/Berlin", "replicas": 12, "as": "exact"}


def test_a_cron_hpa_becomes_instants() -> None:
    made = table(cron_policy(cron_hpa(job("0 0 8 * * *", 12), job("0 0 20 * * *", 3)), "", "", "Europe/Berlin"))
    (strategy,) = made["strategy"]
    assert strategy["instants"] == [MORNING, {**MORNING, "at": "0 20 * * *", "replicas": 3}]
    assert made["replicas"] == {"min": 3, "max": 12}


def test_excluded_dates_get_the_years_they_are_written_for() -> None:
    manifest = cron_hpa(job("0 0 8 * * *", 12), excludeDates=["* * * 15 11 *", "* * * 29 2 *", "* * * * 5 *"])
    imported = cron_policy(manifest, "", "", years=(2026, 2028))
    (strategy,) = table(imported)["strategy"]
    assert strategy["instants"][0]["except"] == ["2026-11-15", "2028-11-15", "2028-02-29"]
    assert 'spec.excludeDates: "* * * * 5 *" is no single date: write it as `except`' in imported.notes


@pytest.mark.parametrize(
    ("schedule", "cron"),
    [
        pytest.param("0 0 8 * * *", "0 8 * * *", id="on the minute"),
        pytest.param("30 0 8 ? * 1-5", "30 0 8 * * 1-5", id="with a second"),
        pytest.param("*/5 0 8 * * *", "0 8 * * *", id="many seconds"),
        pytest.param("@daily", "0 0 * * *", id="a name"),
        pytest.param("0 8 * * *", "", id="five fields"),
    ],
)
def test_cron_expressions_lose_their_seconds(schedule: str, cron: str) -> None:
    assert cron_of(schedule) == cron


def test_a_job_that_happens_once_is_left_out() -> None:
    manifest = cron_hpa(job("@date 2026-10-01 08:00:00", 5), job("0 0 9 * * *", 2, runOnce=True), job("0 0 8 * * *", 3))
    imported = cron_policy(manifest, "", "")
    assert len(table(imported)["strategy"][0]["instants"]) == 1
    assert [note.partition(":")[0] for note in imported.notes[:2]] == ["spec.jobs[0]", "spec.jobs[1]"]


def test_a_cron_hpa_of_an_hpa_is_a_floor() -> None:
    manifest = cron_hpa(job("0 0 8 * * *", 12))
    manifest["spec"]["scaleTargetRef"] = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "name": "web",
    }
    assert cron_policy(manifest, "", "").table is None
    made = table(cron_policy(manifest, "", "", hpas={"shop/web": hpa([])}))
    assert made["workload"]["kind"] == "Deployment"
    assert made["strategy"][0]["instants"][0]["as"] == "floor"


def test_only_zeros_make_no_policy() -> None:
    assert cron_policy(cron_hpa(job("0 0 8 * * *", 0)), "", "").table is None


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("Off", "recommend", id="Off"),
        pytest.param("Initial", "recommend", id="Initial"),
        pytest.param("Recreate", "apply", id="Recreate"),
        pytest.param("Auto", "apply", id="Auto"),
        pytest.param("InPlaceOrRecreate", "apply", id="InPlaceOrRecreate"),
    ],
)
def test_a_vpas_mode_says_whether_pods_change(mode: str, expected: str) -> None:
    made = table(vpa_policy(vpa(updatePolicy={"updateMode": mode}), "", ""))
    assert (made["mode"], made["strategy"][0]["mode"]) == ("observe", expected)


def test_a_vpa_has_the_recommenders_defaults() -> None:
    imported = vpa_policy(vpa(), "", "")
    (strategy,) = table(imported)["strategy"]
    assert strategy["cpu"] == {"statistic": "p90", "margin": 0.15, "min": "25m"}
    assert strategy["memory"] == {"statistic": "p90", "margin": 0.15, "min": "250M"}
    assert strategy["confident"] is True
    (source,) = imported.sources
    assert (source["cpu_half_life"], source["memory_half_life"], source["weigh"]) == (86400, 86400, "time")


def test_each_container_has_its_own_bounds() -> None:
    policies = [
        {"containerName": "app", "minAllowed": {"cpu": "100m"}, "maxAllowed": {"cpu": "2", "memory": "100Mi"}},
        {"containerName": "proxy", "mode": "Off"},
    ]
    (strategy,) = table(vpa_policy(vpa(resourcePolicy={"containerPolicies": policies}), "", ""))["strategy"]
    assert strategy["containers"] == ["app"]
    assert (strategy["cpu"]["min"], strategy["cpu"]["max"]) == ("100m", "2")
    assert (strategy["memory"]["min"], strategy["memory"]["max"]) == ("100Mi", "100Mi")


def test_a_wrong_mode_of_a_vpa_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"spec\.updatePolicy\.updateMode: must be one of Off, .*, is \"Never\""):
        vpa_policy(vpa(updatePolicy={"updateMode": "Never"}), "", "")
