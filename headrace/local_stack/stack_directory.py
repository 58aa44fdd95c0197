"""The data directory of one stack: who may use it, what may be deleted, and which ports it had last time."""

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import ConfigurationError, UnavailableError

MARKER = ".headrace-stack"
MARKER_TEXT = (
    "The data of a Headrace local stack. Everything in this directory may be deleted by `headrace up --fresh`.\n"
)
LOCK = "stack.lock"
STATE = "stack.json"
MIN_FREE_BYTES = 256 << 20


def user_cache_dir() -> Path:
    """Headrace's folder in the user's cache: `$XDG_CACHE_HOME/headrace`, by default `~/.cache/headrace`."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(configured) if configured else Path.home() / ".cache") / "headrace"


class StackDirectory:
    """A directory that belongs to one running stack at a time, recognised by its marker file."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self._lock_fd: int | None = None

    def open(self, *, fresh: bool = False) -> None:
        """Create the directory or check that it is a stack's, lock it, and with `fresh` empty it.

        :raises ConfigurationError: it holds other people's files, cannot be written, or is out of space.
        :raises UnavailableError: another stack uses it now.
        """
        try:
            self._open(fresh)
        except OSError as error:
            self.close()
            raise ConfigurationError(f"cannot use data directory {self.path}: {error.strerror or error}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another stack use the directory."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def read_ports(self) -> dict[str, int]:
        """The ports of the last run; empty when there was none or its state cannot be read."""
        try:
            ports = json.loads((self.path / STATE).read_text(encoding="utf-8"))["ports"]
            return {str(name): int(port) for name, port in ports.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def write_ports(self, ports: Mapping[str, int]) -> None:
        """Remember these ports, in place of the last ones.

        :raises ConfigurationError: the directory cannot be written.
        """
        target = self.path / STATE
        draft = target.with_suffix(".new")
        try:
            draft.write_text(json.dumps({"ports": dict(ports)}, indent=2) + "\n", encoding="utf-8")
            draft.replace(target)
        except OSError as error:
            raise ConfigurationError(f"cannot write {target}: {error.strerror or error}") from error

    def _open(self, fresh: bool) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        marker = self.path / MARKER
        if not marker.is_file():
            if any(self.path.iterdir()):
                raise ConfigurationError(
                    f"data directory {self.path} holds files that are not a local stack's: choose an empty directory"
                )
            marker.write_text(MARKER_TEXT, encoding="utf-8")
        self._lock_fd = self._take_lock()
        if fresh:
            self._delete_contents()
        self._check_space()

    def _take_lock(self) -> int:
        lock_fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(lock_fd, 20, 0).decode(errors="replace").strip()
            os.close(lock_fd)
            raise UnavailableError(
                f"data directory {self.path} is in use by another local stack (process {holder or 'unknown'})"
            ) from error
        os.ftruncate(lock_fd, 0)
        os.pwrite(lock_fd, f"{os.getpid()}\n".encode(), 0)
        return lock_fd

    def _delete_contents(self) -> None:
        for entry in self.path.iterdir():
            if entry.name in (MARKER, LOCK):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def _check_space(self) -> None:
        free_bytes = shutil.disk_usage(self.path).free
        if free_bytes < MIN_FREE_BYTES:
            raise ConfigurationError(
                f"only {free_bytes >> 20} MB free for data directory {self.path}:"
                f" at least {MIN_FREE_BYTES >> 20} MB are needed"
            )
