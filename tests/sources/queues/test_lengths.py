"""What all sources of queues share: a queue that fails affects no other, and is never empty."""

from collections.abc import Mapping

import pytest

from elasticd.base.clock import VirtualClock
from elasticd.sources.queues.lengths import Lengths, Queue, check_queues
from elasticd.sources.rounds import Fault

ORDERS = Queue(name="waiting", workload="shop/Deployment/orders")
MAILS = Queue(name="waiting", workload="shop/Deployment/mails")
LATE = Queue(name="late", workload="shop/Deployment/orders")


def lengths(answers: Mapping[Queue, float | str]) -> Lengths[Queue]:
    async def ask(queue: Queue) -> float:
        answer = answers[queue]
        if isinstance(answer, str):
            raise Fault(answer)
        return answer

    return Lengths("queues", tuple(answers), ask, VirtualClock(100.0))


async def test_each_queue_is_the_series_of_its_workload() -> None:
    readings = await lengths({ORDERS: 3.0, MAILS: 0.0, LATE: 7.0}).read(100.0)
    values = {
        name: {key: sample.value for key, (sample,) in table.items()} for name, table in readings.workloads.items()
    }
    assert values == {
        "waiting": {"shop/Deployment/orders": 3.0, "shop/Deployment/mails": 0.0},
        "late": {"shop/Deployment/orders": 7.0},
    }
    assert (readings.error, dict(readings.faults)) == ("", {})


async def test_a_queue_that_fails_is_missing_and_named() -> None:
    readings = await lengths({ORDERS: "gone", MAILS: 2.0}).read(100.0)
    assert list(readings.workloads["waiting"]) == ["shop/Deployment/mails"]
    assert (readings.error, readings.faults) == ("", {"waiting": "shop/Deployment/orders: gone"})


async def test_if_all_fail_the_source_fails() -> None:
    readings = await lengths({ORDERS: "gone", MAILS: "gone"}).read(100.0)
    assert (readings.error, dict(readings.workloads)) == ("gone", {})


async def test_a_sample_is_measured_when_its_answer_came() -> None:
    readings = await lengths({ORDERS: 3.0}).read(40.0)
    (sample,) = readings.workloads["waiting"]["shop/Deployment/orders"]
    assert (sample.measured, sample.received, sample.window) == (100.0, 100.0, 0.0)


def test_two_queues_of_one_series_and_workload_are_refused() -> None:
    with pytest.raises(ValueError, match='"waiting" of shop/Deployment/orders is twice'):
        check_queues((ORDERS, MAILS, ORDERS))
