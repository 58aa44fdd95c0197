from stream_workers.supervision.restart_policy import RestartPolicy


def test_the_first_restart_is_immediate_and_the_next_ones_wait_longer_and_longer() -> None:
    policy = RestartPolicy(10)
    waits = [policy.wait_before_restart(float(second)) for second in range(8)]
    assert waits == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]


def test_more_restarts_within_a_minute_than_allowed_are_given_up() -> None:
    policy = RestartPolicy(3)
    assert None not in [policy.wait_before_restart(now) for now in (0.0, 1.0, 2.0)]
    assert policy.wait_before_restart(3.0) is None
    assert policy.restarts == 3


def test_a_minute_later_all_is_forgotten() -> None:
    policy = RestartPolicy(1)
    assert [policy.wait_before_restart(now) for now in (0.0, 60.0, 120.0)] == [0.0, 0.0, 0.0]


def test_processes_that_got_work_done_are_never_a_crash_loop() -> None:
    policy = RestartPolicy(1)
    assert [policy.wait_before_restart(float(now), was_useful=True) for now in range(20)] == [0.0] * 20
