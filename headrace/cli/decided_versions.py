"""What was decided about a model's versions, for an audit: the timeline from Redis, the cuts from the control topic."""

from typing import TYPE_CHECKING

from headrace.cli.model_access import open_control_plane

if TYPE_CHECKING:
    from model_store.timeline import Timeline
    from producers.audit.version_audit import KnownDecisions
    from producers.audit.version_facts import Decisions
    from producers.recorded_cuts import Cuts
    from schemas.settings import Settings


def make_decisions(timeline: "Timeline", cuts: "Cuts") -> "Decisions":
    """Return the entries of a timeline and the recorded cuts as an audit needs them."""
    from model_store.timeline import SwitchMode  # noqa: PLC0415 - keeps --help instant
    from producers.audit.version_facts import Decision, Decisions  # noqa: PLC0415

    entries = tuple(
        Decision(
            entry.epoch,
            frozenset(entry.split),
            entry.effective_from_ms if entry.mode is SwitchMode.EXACT else None,
            entry.pick,
        )
        for entry in timeline.entries
    )
    return Decisions(entries, cuts)


def look_up_decisions(settings: "Settings", model: str, *, from_topic_alone: bool = False) -> "KnownDecisions":
    """Read timeline and cuts. Raises UnavailableError when Redis or Kafka does not answer.

    With `from_topic_alone` nothing is asked and nothing is known.
    """
    from producers.audit.version_audit import KnownDecisions  # noqa: PLC0415 - keeps --help instant
    from producers.recorded_cuts import RecordedCuts, collect_cuts, find_contradictions  # noqa: PLC0415

    if from_topic_alone:
        return KnownDecisions()
    with open_control_plane(settings) as (live, _):
        timeline = live.read(model)
    if timeline is None:
        return KnownDecisions(sources=("no timeline in Redis",))
    cuts = [cut for cut in RecordedCuts(settings.kafka, settings.topics.control).list_cuts() if cut.model == model]
    return KnownDecisions(
        make_decisions(timeline, collect_cuts(cuts, model)),
        tuple(find_contradictions(cuts)),
        ("timeline", f"{len(cuts)} cuts on {settings.topics.control}"),
    )
