"""Environments of the peers, made when they are needed: only the peer is installed, torch is shared with the project.

A peer that cannot be installed is no reason to stop: it is left out, and the report says why.
"""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PINS = Path(__file__).parent
FOLDER = PINS.parent / ".environments"
SHARED_TEXT = "text"
"""Its packages are offered to all environments, so that every contestant can run the text model."""
_INSTALL_SECONDS = 300


class EnvironmentUnavailableError(Exception):
    """An environment cannot be made; says why."""


class Environments:
    """Makes and remembers environments. Not safe for more than one thread."""

    def __init__(self) -> None:
        self._found: dict[str, Path | EnvironmentUnavailableError] = {"": Path(sys.executable)}

    def python(self, name: str) -> Path:
        """The interpreter of an environment, which is installed first where it is missing or of another make.

        Raises EnvironmentUnavailableError, the same one each time.
        """
        if name not in self._found:
            try:
                self._found[name] = _install(name)
            except EnvironmentUnavailableError as error:
                self._found[name] = error
        found = self._found[name]
        if isinstance(found, EnvironmentUnavailableError):
            raise found
        return found


def read_pins(name: str) -> tuple[str, ...]:
    """The pinned packages of an environment, as `name==version`."""
    return tuple(line for line in (PINS / f"{name}.txt").read_text(encoding="utf-8").splitlines() if line)


def _install(name: str) -> Path:
    folder, pins = FOLDER / name, PINS / f"{name}.txt"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    wanted = hashlib.sha256(pins.read_bytes() + f"{sys.version}{_shared_paths(name)}".encode()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    uv = Path(sys.executable).with_name("uv")
    found = str(uv) if uv.is_file() else shutil.which("uv")
    if found is None:
        raise EnvironmentUnavailableError("uv is not installed")
    _run(found, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
    # --no-deps: the pins are complete, and what they leave out (torch, numpy) is the project's.
    _run(found, "pip", "install", "--quiet", "--no-deps", "--python", str(python), "--requirement", str(pins))
    _site_packages(folder).joinpath("shared.pth").write_text(_shared_paths(name), encoding="utf-8")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _shared_paths(name: str) -> str:
    shared = [sysconfig.get_paths()["purelib"]]
    if name != SHARED_TEXT:
        shared.append(str(_site_packages(FOLDER / SHARED_TEXT)))
    return "\n".join(shared) + "\n"


def _site_packages(folder: Path) -> Path:
    return folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def _run(*command: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - our own pins, no shell
            command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnavailableError(f"{Path(command[0]).name} {command[1]}: {error}") from error
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise EnvironmentUnavailableError(f"{Path(command[0]).name} {command[1]}: {words[-1] if words else 'failed'}")
