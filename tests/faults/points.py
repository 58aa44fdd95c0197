"""The test's side of `fault_points/sitecustomize.py`: chooses where a member ends next."""

import os
from pathlib import Path

from tests.faults.worker_process import PROJECT, wait_until

FOLDER = Path(__file__).with_name("fault_points")


class FaultPoints:
    """A folder that the members of one run look into."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """For the worker, whose members inherit it."""
        return {"PYTHONPATH": os.pathsep.join((str(FOLDER), str(PROJECT))), "FAULT_POINTS": str(self._folder)}

    def arm(self, point: str) -> None:
        """The next member that comes to the point ends there."""
        draft = self._folder / "draft"
        draft.write_text(point)
        draft.rename(self._folder / "armed")

    def wait_until_taken(self, point: str, seconds: float = 20.0) -> None:
        """Wait until a member came to it. Raises TimeoutError."""
        wait_until((self._folder / f"taken-{point}").exists, seconds, f"a member came to {point}")

    def strike(self, point: str) -> None:
        """Arm a point and wait until it has done its work."""
        self.arm(point)
        self.wait_until_taken(point)
