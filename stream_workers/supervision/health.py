"""What a worker tells the outside of itself: ready or why not, and its metrics. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from stream_workers.links.messages import Status
from stream_workers.supervision.metrics_merge import Sample, merge_metrics

STALE_SECONDS = 4.0
"""A member reports twice a second; the endpoint is red at most five seconds after one has stopped to."""


@dataclass(frozen=True, slots=True)
class SlotHealth:
    """One slot as its supervisor sees it. `heard_at` is the monotonic time of the last status."""

    slot: str
    status: Status | None
    heard_at: float
    models_loaded: int
    member_restarts: int
    model_restarts: int
    metrics: str = ""
    """Prometheus text of its members, the present one and those before it."""


def find_obstacles(slots: Sequence[SlotHealth], now: float) -> list[str]:
    """Return why the worker is not ready, a line per reason; empty when it is."""
    reasons = []
    for slot in slots:
        if slot.models_loaded == 0:
            reasons.append(f"{slot.slot}: no model process is loaded")
        if slot.status is None:
            reasons.append(f"{slot.slot}: the member has not reported yet")
        elif now - slot.heard_at > STALE_SECONDS:
            reasons.append(f"{slot.slot}: the member has been silent for {now - slot.heard_at:.1f} s")
        elif not slot.status.ready:
            said = slot.status.reasons or ["the member is not ready"]
            reasons += [f"{slot.slot}: {reason}" for reason in said]
    return reasons if slots else ["starting"]


def render_metrics(slots: Sequence[SlotHealth], now: float) -> str:
    """Return the metrics of all members, each sample with its slot, and the supervisor's own."""
    texts = {slot.slot: slot.metrics for slot in slots}
    own = [
        Sample("headrace_ready", "1 while the worker is ready.", {}, float(not find_obstacles(slots, now))),
    ]
    for slot in slots:
        label = {"slot": slot.slot}
        heard = slot.status is not None and now - slot.heard_at <= STALE_SECONDS
        own += [
            Sample("headrace_member_up", "1 while the member reports.", label, float(heard)),
            Sample("headrace_model_processes", "Model processes that serve.", label, float(slot.models_loaded)),
            Sample(
                "headrace_restarts_total",
                "Processes started in place of one that ended.",
                {**label, "role": "member"},
                float(slot.member_restarts),
                "counter",
            ),
            Sample(
                "headrace_restarts_total",
                "Processes started in place of one that ended.",
                {**label, "role": "model"},
                float(slot.model_restarts),
                "counter",
            ),
        ]
    return merge_metrics(texts, own)
