"""What a member says about itself: to its supervisor how it is and what it wants, to Redis where it stands."""

import os
import socket
from collections.abc import Collection
from dataclasses import replace

from model_store.timeline import Timeline
from model_store.worker_reports import WorkerReport, name_worker
from schemas.errors import ConfigurationError
from schemas.settings import Settings
from stream_workers.batching.wanted_versions import WantedVersions, find_live_entries, has_room_for
from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Candidate
from stream_workers.parts import WorkerParts
from stream_workers.pipeline.contract import Residency
from stream_workers.start_up import WaitLog
from stream_workers.supervision.member_link import MemberLink
from stream_workers.version_following import VersionFollower


class Reporter:
    """Speaks from the main thread and waits for nobody. Without a follower the version is fixed by the settings."""

    def __init__(self, link: MemberLink, follower: VersionFollower | None) -> None:
        self._link = link
        self._follower = follower
        self._settings: Settings = link.settings
        self._wanted = WantedVersions(self._settings.model.name)
        self._log_wait = WaitLog()
        worker = self._settings.worker
        self._empty = WorkerReport(
            worker=name_worker(worker.group, worker.name, link.slot_number),
            slot=link.slot_number,
            host=socket.gethostname(),
            pid=os.getpid(),
            epoch=0,
        )

    def waiting(self, reason: str) -> None:
        """Before the loop runs: not ready, and why."""
        self._log_wait(reason)
        self._link.send_status(ready=False, reasons=[reason])

    def want(
        self,
        timeline: Timeline,
        in_hand: Collection[ServedVersion],
        wall_now: float,
        now: float,
        shadow: str | None = None,
    ) -> None:
        """Ask for what this timeline and the records in hand need, for what is to be prepared, and for a shadow."""
        model = self._settings.model
        if model.version is not None:
            self._link.serve([ServedVersion(model.name, model.version, 0)])
            return
        declared = self._link.declared
        if declared is not None and self._follower is not None and not self._follower.has_looked:
            # The member before this one knew better.
            self._link.serve(declared.wanted, declared.candidate, declared.shadow)
            return
        wanted = self._wanted.choose(timeline, in_hand, int(wall_now * 1000), now)
        candidate = self._follower.candidate if self._follower is not None else None
        asked = None if candidate is None else Candidate(candidate.id, list(candidate.versions))
        is_news = asked is not None and (declared is None or declared.candidate != asked)
        if asked is not None and is_news and not has_room_for(asked.versions, wanted, timeline, int(wall_now * 1000)):
            asked = None
        if wanted:
            self._link.serve(wanted, asked, shadow)

    def __call__(self, parts: WorkerParts, in_flight: int, in_hand: Collection[ServedVersion]) -> None:
        """From the loop: two times a second, and when something has changed.

        `in_hand` are the versions that records in batches or queues are to meet.
        """
        now, wall_now, residency = parts.clock(), parts.wall_clock(), parts.pool.residency()
        timeline = parts.versions.stamps.timeline
        parts.metrics.batching.note_waiting(in_flight, len(parts.batcher), parts.batcher.oldest_polled_at(), now)
        self.want(timeline, in_hand, wall_now, now, parts.shadow.wanted)
        self._meet_refusals(parts)
        if self._follower is not None:
            report = self._describe(timeline, residency, int(wall_now * 1000))
            self._follower.note_report(replace(report, shadow=parts.shadow.report()))
        waiting = self._note_versions(parts)
        reasons = [*_find_reasons(parts), *_find_version_reasons(residency, waiting, in_hand)]
        self._link.send_status(ready=not reasons, reasons=reasons, metrics=parts.metrics.exposition())

    def _describe(self, timeline: Timeline, residency: Residency, now_ms: int) -> WorkerReport:
        live = find_live_entries(timeline, now_ms)
        empty = self._empty
        report = WorkerReport(
            worker=empty.worker,
            slot=empty.slot,
            host=empty.host,
            pid=empty.pid,
            epoch=timeline.epoch,
            serving=tuple(sorted(live[0].split)) if live else (),
            warm=residency.loaded,
            preparing=residency.preparing,
            ready=residency.ready,
        )
        refused = residency.refused
        return report if refused is None else report.refusing(refused.id, refused.reason)

    def _note_versions(self, parts: WorkerParts) -> int:
        """Set the gauges of versions; returns how many records wait for one."""
        member, versions = parts.metrics.member, parts.metrics.versions
        active = parts.pool.active_version()
        member.note_version(active.version if active else "", parts.versions.stamps.timeline.epoch)
        waiting = parts.batcher.count_waiting(parts.pool.has_instances)
        versions.waiting.set(waiting)
        if self._follower is not None:
            member.pointer_stale.set(self._follower.stale_seconds())
            versions.note_pointer(self._follower.counts)
        return waiting

    def _meet_refusals(self, parts: WorkerParts) -> None:
        refused, self._link.refused = self._link.refused, []
        for refusal in refused:
            parts.metrics.member.refused_versions.inc()
            if not parts.pool.has_instances():
                raise ConfigurationError(f"version {refusal.version.version} cannot be served: {refusal.reason}")


def _find_reasons(parts: WorkerParts) -> list[str]:
    reasons = []
    if not parts.pool.has_instances():
        reasons.append("no model process is ready")
    if not parts.member.is_connected:
        reasons.append("no connection to a Kafka broker")
    if not parts.member.is_member:
        reasons.append("not a member of the consumer group")
    if parts.breaker.is_open:
        reasons.append("the model fails on every record")
    return reasons


def _find_version_reasons(residency: Residency, waiting: int, in_hand: Collection[ServedVersion]) -> list[str]:
    reasons = [f"version {name} cannot be loaded: {reason}" for name, reason in sorted(residency.failed.items())]
    unknown = sorted(version.epoch for version in in_hand if not version.version)
    if waiting and unknown:
        reasons.append(
            f"records wait for the decision of epoch {unknown[-1]}, which Redis does not show; if it was lost,"
            f" `headrace models activate --floor-epoch {unknown[-1]}` goes on with a newer one"
        )
    return reasons
