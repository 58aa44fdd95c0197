"""The timeline that was last seen, kept for a start without Redis."""

from pathlib import Path

import structlog

from model_store.timeline import Timeline
from model_store.timeline_codec import decode_timeline, encode_timeline
from schemas.errors import PipelineError

_log = structlog.get_logger("versions")


class LastKnownTimeline:
    """The timeline that was last seen, in a file of the state folder, replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Timeline | None:
        """Return it, or None when there is none or it cannot be read."""
        try:
            return decode_timeline(self._path.read_bytes())
        except (OSError, PipelineError):
            return None

    def save(self, timeline: Timeline) -> None:
        """Replace it. A full disk is logged and no more: the file only helps a start without Redis."""
        written = self._path.with_name(f".{self._path.name}.part")
        try:
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(encode_timeline(timeline))
            written.replace(self._path)
        except OSError as error:
            _log.warning("last known version not saved", reason=error.strerror)
