"""A member without Kafka: runs one small batch after the other and reports what came back.

It obeys a file named by `DRIVEN_COMMANDS`: the last line is `serve VERSION EPOCH`, `hang`, `exit CODE` or nothing.
"""

import os
import signal
import time
from collections import Counter
from pathlib import Path

from stream_workers.batching.work import Batch, ReleaseReason, ServedVersion
from stream_workers.pipeline.contract import BatchAnswered
from stream_workers.pipeline.replica_pool import ReplicaPool
from stream_workers.supervision.member_link import MemberLink
from tests.fakes.json_records import item


class DrivenMember:
    """The loop of a member, as short as can be."""

    def __init__(self, link: MemberLink, commands: Path) -> None:
        self._link = link
        self._commands = commands
        self._done = ""
        self._pool = ReplicaPool(link, link.settings, time.monotonic)
        self._counts: Counter[str] = Counter()
        self._reported_at = 0.0
        self.should_stop = False

    def step(self) -> None:
        self._obey()
        now = time.monotonic()
        active = self._pool.active_version()
        if active is not None and self._pool.count_free_slots() and not self.should_stop:
            self._counts["submitted"] += 1
            batch = Batch(self._counts["submitted"], [item(0, {"x": 1})], ReleaseReason.FULL, active)
            self._pool.submit(batch, now)
        for outcome in self._pool.collect(0.02, now):
            right = isinstance(outcome, BatchAnswered) and list(outcome.outcomes) == [b"3.0"]
            self._counts["right" if right else "lost"] += 1
        if now - self._reported_at > 0.1:
            self._reported_at = now
            self._report()

    def _obey(self) -> None:
        command = self._commands.read_text().strip() if self._commands.exists() else ""
        if command == self._done:
            return
        self._done = command
        verb, *arguments = command.split()
        if verb == "serve":
            self._link.serve([ServedVersion("test", arguments[0], int(arguments[1]))])
        elif verb == "hang":
            time.sleep(3600)
        elif verb == "exit":
            os._exit(int(arguments[0]))

    def _report(self) -> None:
        active = self._pool.active_version()
        facts = {
            "right": self._counts["right"],
            "lost": self._counts["lost"],
            "refused": len(self._link.refused),
            "pid": os.getpid(),
            "epoch": active.epoch if active else -1,
        }
        text = "".join(f"# TYPE driven_{name} gauge\ndriven_{name} {value}\n" for name, value in facts.items())
        self._link.send_status(ready=self._pool.has_instances(), reasons=["no model"], metrics=text)


def main() -> None:
    member = DrivenMember(MemberLink.from_environment(), Path(os.environ["DRIVEN_COMMANDS"]))
    signal.signal(signal.SIGTERM, lambda *_: setattr(member, "should_stop", True))
    while not member.should_stop:
        member.step()


if __name__ == "__main__":
    main()
