"""The streams while they run: frames out at their pace, a member killed halfway, the screen kept up to date."""

import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Sequence

from headrace.demo.audience import Audience
from headrace.demo.footage import Footage
from headrace.demo.keepsakes import request_id
from headrace.demo.kill import Kill
from headrace.demo.live_view import Moment
from headrace.demo.scoreboard import Scoreboard
from headrace.demo.screen import Screen
from headrace.demo.stage import MAX_BATCH_SIZE, Stage
from producers.audit.ledger import SentRecord
from producers.kafka_publisher import Publisher
from producers.request_attributes import Delivery
from producers.sources.item import Item
from producers.sources.streams import StreamRunner
from schemas.errors import UnavailableError

_TICK_SECONDS = 0.25


class Performance:
    """One run over an open stage. `written` holds the acknowledged requests by stream."""

    def __init__(
        self,
        stage: Stage,
        publisher: Publisher,
        audience: Audience,
        scoreboard: Scoreboard,
        screen: Screen,
        seconds: float,
    ) -> None:
        self._stage = stage
        self._publisher = publisher
        self._audience = audience
        self._screen = screen
        self._seconds = seconds
        self._began = 0.0
        self._runner: StreamRunner | None = None
        self.scoreboard = scoreboard
        self.kill: Kill | None = None
        self.written: defaultdict[str, list[SentRecord]] = defaultdict(list)

    def stream(self, footage: Sequence[Footage], frames_per_second: float) -> None:
        """Publish every stream at its pace until the time is over. Raises what ends a part of the demo early."""
        self._began = time.monotonic()
        self._runner = StreamRunner({stream.name: stream.play for stream in footage}, self._send, fps=frames_per_second)
        reports = self._runner.run(self._tick, tick_seconds=_TICK_SECONDS)
        broken = [report for report in reports if report.faulty or report.broken]
        if broken:
            raise UnavailableError(f"stream {broken[0].stream_id} broke: {broken[0].broken or broken[0].last_fault}")
        self._publisher.flush()

    def await_answers(self, limit_seconds: float) -> None:
        """Wait until every request is answered or the limit is reached: what is missing then, the ledger tells."""
        give_up_at = time.monotonic() + limit_seconds
        while self.scoreboard.count_waiting() and time.monotonic() < give_up_at:
            self._watch()
            time.sleep(_TICK_SECONDS)
        self._watch()

    def _send(self, stream: str, item: Item) -> None:
        name = request_id(stream, item.sequence)
        self.scoreboard.note_published(name, stream, time.monotonic())

        def note_written(delivery: Delivery) -> None:
            if delivery.position is not None:
                self.written[stream].append(SentRecord(delivery.position, delivery.request_id, stream))

        self._publisher.publish(
            item.payload,
            content_type=item.content_type,
            key=stream,
            request_id=name,
            sequence=item.sequence,
            on_delivery=note_written,
        )

    def _tick(self) -> None:
        elapsed = time.monotonic() - self._began
        if self.kill is None and elapsed >= self._seconds / 2:
            self._kill_a_member()
        if elapsed >= self._seconds and self._runner is not None:
            self._runner.stop()
        self._watch()

    def _watch(self) -> None:
        self._audience.check()
        self._stage.check()
        self._screen.show(self._moment())

    def _kill_a_member(self) -> None:
        members = self._stage.members()
        if not members:
            raise UnavailableError("there is no member to kill: the worker has none running")
        with contextlib.suppress(ProcessLookupError):
            os.kill(members[0].pid, signal.SIGKILL)
        self.kill = Kill(members[0].pid, time.monotonic())
        self._screen.say(f"killed member {members[0].pid} with SIGKILL")

    def _moment(self) -> Moment:
        now = time.monotonic()
        members = [child.pid for child in self._stage.members()]
        return Moment(
            snapshot=self.scoreboard.snapshot(now),
            elapsed_seconds=now - self._began,
            total_seconds=self._seconds,
            max_batch_size=MAX_BATCH_SIZE,
            supervisor_pid=self._stage.supervisor_pid,
            member_pids=members,
            model_pids=[child.pid for child in self._stage.models()],
            kill=self.kill.describe(self.scoreboard.arrivals(), members, now) if self.kill else "",
        )
