"""What a member asks of its supervisor, and what it says about itself."""

from collections.abc import Sequence
from dataclasses import replace

from model_store.pointer_watch import PointerCounts
from model_store.shadow import Shadow
from model_store.timeline import Timeline
from model_store.worker_reports import Candidate, WorkerReport
from schemas.settings import ModelSettings, Settings
from stream_workers.batching.wanted_versions import LINGER_SECONDS
from stream_workers.batching.work import ServedVersion
from stream_workers.links import messages
from stream_workers.links.messages import Refused, Serve
from stream_workers.pipeline.contract import Refusal, Residency
from stream_workers.reporting import Reporter
from tests.unit.stream_workers.worker_rig import P0, Rig, fill

V1, V2 = ServedVersion("m", "v1", 1), ServedVersion("m", "v2", 2)
ONE = Timeline().with_activation("v1", 0, 0)
TWO = ONE.with_activation("v2", 1, 0, effective_from_ms=50_000)
CANDIDATE = Candidate("0123456789abcdef", ("v3",), "me@here", 1)


class FakeLink:
    def __init__(self, version: str | None = None, declared: Serve | None = None) -> None:
        self.settings = Settings(model=ModelSettings(name="m", version=version))
        self.slot_number = 3
        self.declared = declared
        self.asked: list[tuple[list[ServedVersion], messages.Candidate | None]] = []
        self.refused: list[Refused] = []
        self.reasons: list[str] = []
        self.shadow: str | None = None

    def serve(
        self,
        wanted: Sequence[ServedVersion],
        candidate: messages.Candidate | None = None,
        shadow: str | None = None,
    ) -> None:
        self.asked.append((list(wanted), candidate))
        self.shadow = shadow

    def send_status(self, *, ready: bool, reasons: Sequence[str] = (), metrics: str = "") -> None:
        assert ready == (not reasons)
        self.reasons = list(reasons)


class FakeFollower:
    def __init__(self) -> None:
        self.has_looked = True
        self.candidate: Candidate | None = None
        self.shadow: Shadow | None = None
        self.reports: list[WorkerReport] = []
        self.counts = PointerCounts(lower_epochs=4)

    def note_report(self, report: WorkerReport) -> None:
        self.reports.append(report)

    def stale_seconds(self) -> float:
        return 0.0


def make(link: FakeLink, follower: FakeFollower | None) -> Reporter:
    return Reporter(link, follower)  # type: ignore[arg-type]  # the parts of them that it uses


def test_a_fixed_version_is_all_that_is_wanted() -> None:
    link = FakeLink("v7")
    make(link, None).want(Timeline(), [], 1.0, 0.0)
    assert link.asked == [([ServedVersion("m", "v7", 0)], None)]


def test_what_the_timeline_and_records_need_is_wanted_and_the_candidate_waits_until_there_is_room() -> None:
    link, follower = FakeLink(), FakeFollower()
    follower.candidate = CANDIDATE
    reporter = make(link, follower)
    asked = messages.Candidate(CANDIDATE.id, ["v3"])
    reporter.want(TWO, [V1], 60.0, 0.0)
    assert link.asked[-1] == ([V2, V1], None), "a third version would be one too many"
    reporter.want(TWO, [], 60.0, LINGER_SECONDS)
    assert link.asked[-1] == ([V2], asked)
    link.declared = Serve([V2], asked)
    reporter.want(TWO, [V1], 60.0, 100.0)
    assert link.asked[-1] == ([V2, V1], asked), "what is being prepared is not taken back"


def test_a_candidate_that_records_need_anyway_takes_no_room() -> None:
    link, follower = FakeLink(), FakeFollower()
    follower.candidate = replace(CANDIDATE, versions=("v1",))
    make(link, follower).want(TWO, [V1], 60.0, 0.0)
    assert link.asked[-1] == ([V2, V1], messages.Candidate(CANDIDATE.id, ["v1"]))


def test_what_the_member_before_asked_for_holds_until_the_first_look() -> None:
    declared = Serve([V1], messages.Candidate("c1", ["v9"]))
    link, follower = FakeLink(declared=declared), FakeFollower()
    follower.has_looked = False
    reporter = make(link, follower)
    reporter.want(TWO, [], 60.0, 0.0)
    assert link.asked == [(declared.wanted, declared.candidate)]
    follower.has_looked = True
    reporter.want(TWO, [], 60.0, 0.0)
    assert link.asked[1] == ([V2], None)


def test_the_report_says_what_is_adopted_served_loaded_and_prepared() -> None:
    rig, link, follower = Rig(timeline=TWO), FakeLink(), FakeFollower()
    rig.turn()
    rig.pool.told = Residency(("v1", "v2"), preparing="c" * 16)
    make(link, follower)(rig.parts, 0, [])
    report = follower.reports[-1]
    assert (report.epoch, report.serving, report.warm) == (2, ("v2",), ("v1", "v2"))
    assert (report.slot, report.preparing, report.ready, report.refused) == (3, "c" * 16, None, None)
    rig.pool.told = Residency(("v1",), refused=Refusal("d" * 16, "truncated file"))
    make(link, follower)(rig.parts, 0, [])
    refused = follower.reports[-1].refused
    assert refused is not None
    assert (refused.candidate, refused.reason) == ("d" * 16, "truncated file")


def test_a_version_that_cannot_be_loaded_makes_the_member_unready_with_the_reason() -> None:
    rig, link = Rig(timeline=TWO), FakeLink()
    rig.turn()
    rig.pool.told = Residency(("v1",), failed={"v2": "wrong hash"})
    make(link, FakeFollower())(rig.parts, 0, [])
    assert link.reasons == ["version v2 cannot be loaded: wrong hash"]


def test_records_that_wait_for_an_unknown_decision_make_the_member_unready() -> None:
    rig, link = Rig(timeline=ONE), FakeLink()
    rig.member.committed, rig.member.metadata = {P0: 0}, {P0: "headrace:1:e=5"}
    fill(rig, 0, 3)
    rig.turn()
    rig.member.assign(P0)
    rig.turn()
    make(link, FakeFollower())(rig.parts, 0, rig.parts.batcher.versions())
    (reason,) = link.reasons
    assert reason.startswith("records wait for the decision of epoch 5, which Redis does not show; ")
    assert "--floor-epoch 5" in reason
    metrics = rig.parts.metrics.versions
    assert metrics.waiting._value.get() == 3
    assert metrics.pointer_faults.labels("lower_epochs")._value.get() == 4
