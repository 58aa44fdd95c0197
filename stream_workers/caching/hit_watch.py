"""Decides whether looking answers up is worth its while. Pure.

A fixed sixteenth of all contents is looked up whatever happens, and only it is judged. Repeats of one content are all
in the sample or all outside it, so the sample's hit rate is what the cache would have with everything in it, while the
cache is bypassed as well as while it is in use: there is no cold start to misjudge, and no switching to and
fro after one.
"""

SAMPLE_OF = 16
WINDOW = 128
_LONGEST_SILENCE = 32 * SAMPLE_OF


class HitWatch:
    """Bypasses after a window of the sample with less than `min_hit_rate` hits, until one with that many comes."""

    def __init__(self, min_hit_rate: float) -> None:
        self._min_hits = min_hit_rate * WINDOW
        self._looked_up = self._hits = 0
        self._silence = self._turn = 0
        self.bypasses = False
        """True while only the sample is looked up."""

    def is_sampled(self, payload: bytes) -> bool:
        """True when this content is one of those that are always looked up.

        About 64 bytes from all over the payload decide, by Python's hash, which is keyed anew in every process.
        """
        if (hash(payload[:: len(payload) // 64 or 1]) + self._turn) % SAMPLE_OF == 0:
            self._silence = 0
            return True
        self._silence += 1
        if self._silence == _LONGEST_SILENCE:
            # Few contents, and all outside the sample: without another sample nothing would ever be noticed.
            self._silence = 0
            self._turn += 1
        return False

    def note(self, *, hit: bool) -> None:
        """A sampled record was looked up."""
        self._looked_up += 1
        self._hits += hit
        if self._looked_up == WINDOW:
            self.bypasses = self._hits < self._min_hits
            self._looked_up = self._hits = 0
