"""What one batch job is asked to do."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class JobOptions:
    """One batch job."""

    input: Path
    output: Path
    topic: str | None = None
    """Request topic; the last of the settings, the least urgent lane, when not given."""
    model: str | None = None
    """Refuse answers of any other model."""
    id_column: str | None = None
    payload_column: str | None = None
    window: int = 1000
    """Rows that may be published and not yet answered."""
    deadline_seconds: float | None = None
    stall_seconds: float | None = None
    """Give up when no outcome comes for this long; the job can be resumed."""
    restart: bool = False
    """Drop the journal and any output of an earlier run: every row is paid for again."""
