"""How a process of a worker speaks: lines for people on a terminal, JSON elsewhere, always on stderr.

Called from entry points only. Never log a payload, a key or a secret: coordinates and reasons are enough.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from schemas.settings import LogSettings

# Without the local variables that both of structlog's own renderings would add: they hold settings and records.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def set_up_logs(settings: LogSettings, **bound: str) -> None:
    """Configure structlog for this process. `bound` goes into every line, such as the slot."""
    as_console = settings.format == "console" or (settings.format == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.processors.JSONRenderer()
    if as_console:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *([] if as_console else [_TRACEBACKS]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.level.upper())),
        logger_factory=_StderrFactory(),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**bound)


class _StderrFactory:
    """Loggers that write to stderr and remember the name they were asked for."""

    def __call__(self, *names: str) -> "structlog.WriteLogger":
        # It writes a line in one piece, end included: processes that share a terminal or file do not tear them.
        logger = structlog.WriteLogger(sys.stderr)
        logger.name = names[0] if names else ""  # type: ignore[attr-defined]  # read by _add_logger_name
        return logger


def _add_logger_name(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    del method
    event["logger"] = getattr(logger, "name", "")
    return event
