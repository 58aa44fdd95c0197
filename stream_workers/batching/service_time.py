"""How long a batch takes from its submission to its answer, as the batches before it did. Pure.

A smoothed mean and a smoothed mean deviation, after Jacobson and Karels ("Congestion Avoidance and Control", 1988) as
in RFC 6298, section 2: gains of 1/8 and 1/4, and the estimate is the mean plus four deviations.
"""

_MEAN_GAIN = 1 / 8
_DEVIATION_GAIN = 1 / 4
_DEVIATIONS = 4


class ServiceTime:
    """An estimate that only a small share of batches exceeds; 0 before the first."""

    def __init__(self) -> None:
        self._mean = self._deviation = 0.0
        self._seen = False

    def note(self, seconds: float) -> None:
        """Take in one batch."""
        if not self._seen:
            self._seen, self._mean, self._deviation = True, seconds, seconds / 2
            return
        self._deviation += _DEVIATION_GAIN * (abs(seconds - self._mean) - self._deviation)
        self._mean += _MEAN_GAIN * (seconds - self._mean)

    @property
    def expected_seconds(self) -> float:
        """From the submission of the next batch to its answer, nearly always."""
        return self._mean + _DEVIATIONS * self._deviation
