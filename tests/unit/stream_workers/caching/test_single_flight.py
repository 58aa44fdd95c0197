from stream_workers.caching.single_flight import SingleFlight
from tests.unit.stream_workers.builders import item


def test_the_first_leads_and_those_after_it_follow() -> None:
    flights = SingleFlight()
    first, second, third = item(0), item(1), item(2)
    assert [flights.join(b"k", one) for one in (first, second, third)] == [True, False, False]
    assert flights.join(b"other", item(3))
    flight = flights.land(first)
    assert flight is not None
    assert (flight.key, flight.followers) == (b"k", [second, third])
    assert len(flights) == 1
    assert flights.join(b"k", item(4))


def test_who_does_not_lead_ends_nothing() -> None:
    flights = SingleFlight()
    first, second = item(0), item(1)
    flights.join(b"k", first)
    flights.join(b"k", second)
    assert flights.land(second) is None
    assert flights.abandon(second) is None
    assert flights.leads(first)


def test_who_is_more_urgent_than_the_leader_leads_too_and_the_first_answer_counts() -> None:
    flights = SingleFlight()
    slow, urgent, follower = item(0, priority=1), item(1, priority=0), item(2, priority=1)
    assert flights.join(b"k", slow)
    assert flights.join(b"k", urgent)
    assert not flights.join(b"k", follower)
    flight = flights.land(urgent)
    assert flight is not None
    assert flight.followers == [follower]
    assert not flights.leads(slow)
    assert flights.land(slow) is None


def test_a_flight_goes_on_until_its_last_leader_is_out() -> None:
    flights = SingleFlight()
    slow, urgent, follower = item(0, priority=1), item(1, priority=0), item(2, priority=1)
    for one in (slow, urgent, follower):
        flights.join(b"k", one)
    assert flights.abandon(urgent) is None
    flight = flights.abandon(slow)
    assert flight is not None
    assert flight.followers == [follower]
    assert len(flights) == 0


def test_a_partition_that_goes_takes_its_followers_along_and_hands_out_those_of_others() -> None:
    flights = SingleFlight()
    gone, gone_too, left = item(0, 0), item(1, 0), item(0, 1)
    for one in (gone, gone_too, left):
        flights.join(b"k", one)
    kept = item(5, 1)
    flights.join(b"other", kept)
    flights.join(b"other", item(6, 0))
    (ended,) = flights.forget(lambda one: one.request.partition == 0)
    assert ended.followers == [left]
    assert flights.land(gone) is None
    other = flights.land(kept)
    assert other is not None
    assert other.followers == []
