"""The closed queue against laws and formulas that are known of it."""

from math import exp, factorial

import pytest

from elasticd.lab.papers.closed import closed_queue


@pytest.mark.parametrize("servers", [1, 4, 40, 200])
def test_the_response_time_law_holds(servers: int) -> None:
    clients, think = 125, 0.02
    queue = closed_queue(clients, think, servers, 1282.0)
    response = queue.inside / queue.served  # Little's law
    assert queue.served == pytest.approx(clients / (think + response))
    assert queue.refused == 0


def test_with_a_server_for_each_client_nobody_waits() -> None:
    queue = closed_queue(8, 0.02, 8, 100.0)
    assert queue.served == pytest.approx(8 / (0.02 + 1 / 100))


def test_one_server_idles_as_often_as_erlang_loses() -> None:
    clients, think, rate = 6, 0.5, 4.0
    load = think * rate
    lost = (load**clients / factorial(clients)) / sum(load**n / factorial(n) for n in range(clients + 1))
    assert closed_queue(clients, think, 1, rate).served == pytest.approx(rate * (1 - lost))


def test_without_a_queue_it_loses_as_engset_says() -> None:
    one, two = 5 * 2.0 / 3.0, 10 * (2.0 / 3.0) ** 2  # 5 clients of 2 requests a second each, 2 servers of 3
    shares = [part / (1 + one + two) for part in (1, one, two)]
    queue = closed_queue(5, 0.5, 2, 3.0, room=2)
    assert queue.refused == pytest.approx(shares[2] * 3 * 2.0)
    assert queue.served == pytest.approx(3.0 * (shares[1] + 2 * shares[2]))


def test_clients_that_send_slowly_bound_what_is_served() -> None:
    queue = closed_queue(1000, 0.02, 40, 1282.0, send=13_400.0)
    assert queue.served == pytest.approx(13_400, rel=1e-6)
    assert queue.inside < 40 * (1 + exp(-1))
