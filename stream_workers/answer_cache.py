"""Answers to requests that were answered before: who is answered at once, who waits for another, who meets the model.

Exact: an answer is given again only for the same bytes and content type, and only to a record that would meet the very
version, class and settings that made it (docs/decisions/0014). A switch can change what a record that waits here meets.
 Runs in the worker's thread and waits for nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from schemas.settings import CacheSettings
from stream_workers.batching.work import Answer, PartitionKey, Rejected, ServedVersion, WorkItem, unbatched_timings
from stream_workers.caching.answer_keys import DIGEST_BYTES, digest_of
from stream_workers.caching.answer_store import AnswerStore
from stream_workers.caching.hit_watch import HitWatch
from stream_workers.caching.recall import AnswerMaker, Found, NoAnswerCache, Recalled, RemoteAnswers
from stream_workers.caching.single_flight import Flight, SingleFlight
from stream_workers.metrics import CacheMetrics

_log = structlog.get_logger("cache")


@dataclass(slots=True)
class _Asked:
    """A record that leads and waits for Redis."""

    item: WorkItem
    give_up_at: float
    sampled: bool


class AnswerCache(NoAnswerCache):
    """The cache while it is on. Not thread-safe: the worker's thread owns it."""

    def __init__(
        self,
        settings: CacheSettings,
        maker: AnswerMaker,
        metrics: CacheMetrics,
        remote: RemoteAnswers | None = None,
    ) -> None:
        self._maker = maker
        self._metrics = metrics
        self._remote = remote
        self._max_output_bytes = settings.max_output_bytes
        self._wait_seconds = settings.redis_wait_ms / 1000
        self._store = AnswerStore(settings.local_bytes)
        self._flights = SingleFlight()
        self._watch = HitWatch(settings.min_hit_rate)
        self._asked: dict[bytes, _Asked] = {}
        self._returned: list[tuple[WorkItem, bytes]] = []
        """Followers whose flight ended without an answer for them, with the digest of their payload."""
        self._loose: list[WorkItem] = []
        """Followers that the model answers each for itself."""
        self._results: Counter[Found] = Counter()
        self._refused: set[ServedVersion] = set()

    @property
    def holds(self) -> bool:
        """See :class:`NoAnswerCache`."""
        return bool(self._asked or self._returned or self._loose)

    def look_up(self, items: Sequence[WorkItem], now: float) -> Recalled:
        """See :class:`NoAnswerCache`."""
        found = Recalled()
        versions = {item.version for item in items}
        identities = {version: self._maker.answer_identity(version) for version in versions}
        for version, identity in identities.items():
            if not identity:
                self._say_why_not(version)
        self._look_up_all(items, identities, found, now)
        self._report()
        return found

    def sweep(self, now: float) -> Recalled:
        """See :class:`NoAnswerCache`."""
        found = Recalled()
        if not self.holds:
            return found
        self._take_replies(found, now)
        self._stop_waiting(found, now)
        returned, self._returned = self._returned, []
        for item, digest in returned:
            if item.outcome is not None:
                continue
            identity = self._maker.answer_identity(item.version)
            # They have waited long enough: Redis is not asked for them.
            if not identity or self._place(item, identity + digest, found, now) is Found.MISS:
                found.to_queue.append(item)
        found.to_queue += [item for item in self._loose if item.outcome is None]
        self._loose = []
        found.to_queue.sort(key=lambda item: (item.request.topic, item.request.partition, item.request.offset))
        self._report()
        return found

    def note_answers(self, items: Sequence[WorkItem], now: float) -> list[WorkItem]:
        """See :class:`NoAnswerCache`."""
        answered: list[WorkItem] = []
        if len(self._flights):
            for item in items:
                if self._flights.leads(item):
                    answered += self._conclude(item, now)
        return answered

    def drop(self, partition: PartitionKey) -> None:
        """See :class:`NoAnswerCache`."""

        def is_gone(item: WorkItem) -> bool:
            return (item.request.topic, item.request.partition) == partition

        for flight in self._flights.forget(is_gone):
            self._return(flight)
        self._returned = [(item, digest) for item, digest in self._returned if not is_gone(item)]
        self._loose = [item for item in self._loose if not is_gone(item)]
        self._asked = {key: asked for key, asked in self._asked.items() if not is_gone(asked.item)}

    # -- looking up ----------------------------------------------------------------------------------------------------

    def _look_up_all(
        self, items: Sequence[WorkItem], identities: Mapping[ServedVersion, bytes], found: Recalled, now: float
    ) -> None:
        is_sampled, bypassed, undeclared = self._watch.is_sampled, 0, 0
        keys_to_ask: list[bytes] = []
        for item in items:
            identity = identities[item.version]
            if not identity:
                undeclared += 1
                found.to_queue.append(item)
                continue
            sampled = is_sampled(item.request.payload or b"")
            if self._watch.bypasses and not sampled:
                bypassed += 1
                found.to_queue.append(item)
                continue
            key = identity + digest_of(item.request.content_type, item.request.payload or b"")
            result = self._place(item, key, found, now)
            if result is not Found.MISS:
                self._count(result, sampled=sampled)
            elif self._remote is not None and key not in self._asked:
                self._asked[key] = _Asked(item, now + self._wait_seconds, sampled)
                keys_to_ask.append(key)
            else:
                self._miss(_Asked(item, now, sampled), found)
        self._results[Found.BYPASSED] += bypassed
        self._results[Found.UNDECLARED] += undeclared
        if keys_to_ask and self._remote is not None and not self._remote.ask(keys_to_ask):
            for key in keys_to_ask:
                self._miss(self._asked.pop(key), found)

    def _place(self, item: WorkItem, key: bytes, found: Recalled, now: float) -> Found:
        """Answer it, have it follow another one, or say that it must be answered: a miss."""
        output = self._store.get(key)
        if output is not None:
            self._answer(item, output, now)
            found.answered.append(item)
            return Found.LOCAL
        return Found.MISS if self._flights.join(key, item) else Found.WAITED

    def _miss(self, asked: _Asked, found: Recalled) -> None:
        self._count(Found.MISS, sampled=asked.sampled)
        found.to_queue.append(asked.item)

    @staticmethod
    def _answer(item: WorkItem, output: bytes, now: float) -> None:
        item.outcome = Answer(output, item.version, unbatched_timings(item, now))

    def _answer_all(self, items: Iterable[WorkItem], key: bytes, output: bytes, now: float) -> list[WorkItem]:
        """Answer those that meet what made the output, and have the others find another way; returns the former."""
        identity, answered = key[:-DIGEST_BYTES], []
        for item in items:
            if item.outcome is not None:
                continue
            if self._maker.answer_identity(item.version) == identity:
                self._answer(item, output, now)
                answered.append(item)
            else:
                self._returned.append((item, key[-DIGEST_BYTES:]))
        return answered

    # -- answers from Redis --------------------------------------------------------------------------------------------

    def _take_replies(self, found: Recalled, now: float) -> None:
        for key, output in self._remote.take_replies() if self._remote is not None else ():
            asked = self._asked.pop(key, None)
            if asked is None:
                continue
            if output is None or self._maker.answer_identity(asked.item.version) != key[:-DIGEST_BYTES]:
                self._resume(asked, found)
                continue
            self._count(Found.REDIS, sampled=asked.sampled)
            self._store.put(key, output)
            flight = self._flights.land(asked.item)
            waiting = [asked.item, *(flight.followers if flight else ())]
            found.answered += self._answer_all(waiting, key, output, now)

    def _stop_waiting(self, found: Recalled, now: float) -> None:
        for key in [key for key, asked in self._asked.items() if asked.give_up_at <= now]:
            self._resume(self._asked.pop(key), found)

    def _resume(self, asked: _Asked, found: Recalled) -> None:
        if asked.item.outcome is None:
            self._miss(asked, found)

    # -- answers from the model ----------------------------------------------------------------------------------------

    def _conclude(self, item: WorkItem, now: float) -> list[WorkItem]:
        """A leader has its outcome: share it, or have the followers find another way."""
        outcome = item.outcome
        if not isinstance(outcome, Answer):
            flight = self._flights.abandon(item)
            if flight is not None and isinstance(outcome, Rejected):
                # Most likely they are refused too. One after the other they would take a batch's time each.
                self._loose += flight.followers
            elif flight is not None:
                self._return(flight)
            return []
        flight, identity = self._flights.land(item), self._maker.answer_identity(outcome.version)
        if flight is None:
            return []
        if not identity:
            self._return(flight)
            return []
        return self._share(flight, identity + flight.key[-DIGEST_BYTES:], outcome.output, now)

    def _share(self, flight: Flight, key: bytes, output: bytes, now: float) -> list[WorkItem]:
        if len(output) <= self._max_output_bytes:
            self._store.put(key, output)
            if self._remote is not None:
                self._remote.put(key, output)
        return self._answer_all(flight.followers, key, output, now)

    def _return(self, flight: Flight) -> None:
        digest = flight.key[-DIGEST_BYTES:]
        self._returned += [(follower, digest) for follower in flight.followers if follower.outcome is None]

    # -- saying so -----------------------------------------------------------------------------------------------------

    def _count(self, result: Found, *, sampled: bool) -> None:
        self._results[result] += 1
        if sampled:
            self._watch.note(hit=result is not Found.MISS)

    def _report(self) -> None:
        faults = self._remote.take_faults() if self._remote is not None else {}
        self._metrics.note(self._results, faults, self._store.held_bytes)
        self._results.clear()

    def _say_why_not(self, version: ServedVersion) -> None:
        if version not in self._refused:
            self._refused.add(version)
            _log.warning(
                "answers are not cached: the model class does not declare `cacheable`, its processes differ, or the"
                " version is not loaded",
                model=version.model,
                version=version.version,
            )
