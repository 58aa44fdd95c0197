"""`max_wait_ms: auto`: a batch waits only as long as the wait saves more than it costs. Pure.

Let records come at rate r, let `n` instances each take `a + c * b` for a batch of `b`, and let `load = c * r / n` be
the share of the instances that the records themselves need, however they are batched. Batching only saves on `a`.

**The shortest sustainable gap.** When a batch leaves every `g` seconds it holds `r * g` records, and the instances
are busy for the share `u = (a + c * r * g) / (n * g)`. Solved for `g`: `g = a / (n * u - c * r)`. With a shorter gap
they are overloaded, so batches queue and grow until that gap comes about by itself; a longer one is latency for
nothing. We aim at `u = 0.9`, or at half of what `load` leaves when that is more; never at more than a full batch, and
never at more than `10 * a / c` records, of which `a` is a tenth of the cost: what is left to save is not worth a wait.

- `r * g` below one record: single records are sustainable and nothing waits.
- An instance is idle: a batch waits `g - 1/r` from its first record, the rest of the gap being the mean time until
  that record came. Without it the batches of several instances bunch up like buses on a line: the instance that frees
  itself just after another finds an almost empty queue, so the other gets the long batch and ends later still (Newell
  and Potts, "Maintaining a bus schedule", 1964). Holding the early one is the known cure. A lone instance cannot
  bunch, and where records outweigh `a` holding gains little: then the wait is scaled by what is left, `1 - load`.
- All instances are busy: what would be released now could not run yet. Sealing it in a slot loses the records that
  come meanwhile, so it waits until an instance is idle, unless parallel work is worth more than saving `a`: held
  records run as one batch on one instance, while sealed ones spread over all. With one instance there is nothing to
  spread. With more we hold below `load = 0.4 + 0.4 / n`, found by simulation, and wait for the gap above it.

A full batch never waits (the batcher's own rule), so throughput at saturation is that of full batches whatever is
decided here. Bounds against every fixed wait: docs/decisions/0013 and the test named there.
"""

from dataclasses import dataclass
from typing import Literal

from stream_workers.batching.load_estimates import ArrivalRate, ServiceFit
from stream_workers.batching.waiting import FixedWait, WaitPolicy

TARGET_BUSY_SHARE = 0.9
_MOST_AMORTISED = 10.0
_WORTH_HOLDING_RECORDS = 0.4
"""Records per sustainable gap below which batches of one are so far from overload that holding only delays."""


def make_wait(max_wait_ms: float | Literal["auto"], instances: int, max_batch_size: int) -> WaitPolicy:
    """Return the policy that `batching.max_wait_ms` asks for: that wait, or one that follows the load."""
    if max_wait_ms == "auto":
        return AdaptiveWait(instances, max_batch_size)
    return FixedWait(max_wait_ms / 1000)


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds that a batch waits, by whether an instance is idle."""

    when_idle: float
    when_busy: float


def plan_waits(rate: float, fixed: float, per_record: float, instances: int, max_batch_size: int) -> Waits:
    """Return the waits at `rate` records/s, for batches that cost `fixed + per_record * size` seconds."""
    if rate <= 0 or fixed <= 0:
        return Waits(0.0, float("inf") if instances == 1 else 0.0)
    load = per_record * rate / instances
    free_share = max(TARGET_BUSY_SHARE, (1 + load) / 2) - load
    longest = min(max_batch_size, _MOST_AMORTISED * fixed / per_record if per_record else max_batch_size) / rate
    gap = min(longest, fixed / (free_share * instances)) if free_share > 0 else longest
    wait = max(0.0, gap - 1 / rate)
    holds = instances == 1 or (rate * gap > _WORTH_HOLDING_RECORDS and load <= 0.4 + 0.4 / instances)
    scale = 1.0 if holds and instances > 1 else max(0.0, 1 - load)
    return Waits(wait * scale, float("inf") if holds else wait)


class AdaptiveWait:
    """A :class:`stream_workers.batching.waiting.WaitPolicy` that follows the load of one member.

    `instances` is the number of the member's model instances. Nothing waits before the first batch was answered.
    """

    def __init__(self, instances: int, max_batch_size: int) -> None:
        self._instances = instances
        self._max_batch_size = max_batch_size
        self._rate = ArrivalRate()
        self._fit = ServiceFit()
        self._in_hand = 0

    def wait_seconds(self, now: float) -> float:
        """Return the wait of a batch that might be released now."""
        fixed, per_record = self._fit.coefficients()
        if not (fixed or per_record):
            return 0.0
        waits = plan_waits(self._rate.at(now), fixed, per_record, self._instances, self._max_batch_size)
        return waits.when_idle if self._in_hand < self._instances else waits.when_busy

    def note_arrivals(self, count: int, now: float) -> None:
        """Take in polled records."""
        self._rate.note(count, now)

    def note_in_hand(self, batches: int) -> None:
        """Take in how many batches the models have."""
        self._in_hand = batches

    def note_service(self, batch_size: int, seconds: float) -> None:
        """Take in one answered batch."""
        self._fit.note(batch_size, seconds)
