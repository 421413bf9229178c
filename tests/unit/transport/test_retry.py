"""Back-off: grows, is capped, is spread, and starts anew."""

import random

from fenchel_client.retry import Backoff


def test_delays_double_up_to_the_cap_and_stay_within_their_intervals() -> None:
    backoff = Backoff(initial_s=1.0, max_s=10.0, randomness=random.Random(7))
    delays = [backoff.next_delay_s() for _ in range(50)]

    for delay, ceiling in zip(delays, [1, 2, 4, 8] + [10] * 46, strict=True):
        assert ceiling / 2 <= delay <= ceiling


def test_two_clients_do_not_wait_in_step() -> None:
    first, second = Backoff(), Backoff()

    assert [first.next_delay_s() for _ in range(5)] != [second.next_delay_s() for _ in range(5)]


def test_a_connection_that_worked_starts_the_delays_anew() -> None:
    backoff = Backoff(initial_s=1.0, max_s=10.0)
    for _ in range(10):
        backoff.next_delay_s()
    backoff.reset()

    assert backoff.next_delay_s() <= 1.0
