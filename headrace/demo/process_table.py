"""Which processes a process has started, from /proc."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class ChildProcess:
    """A living child: `command` is its command line, arguments joined by spaces; `name` its short name."""

    pid: int
    command: str
    name: str = ""


def children_of(parent: int, proc: Path = PROC) -> list[ChildProcess]:
    """List the living children of a process, by pid; empty when it has none or is gone."""
    return sorted(_find_children(parent, proc), key=lambda child: child.pid)


def _find_children(parent: int, proc: Path) -> Iterator[ChildProcess]:
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in parentheses may hold anything, so the fields are counted from its last parenthesis.
            head, _, tail = (folder / "stat").read_text().rpartition(")")
            state, ppid = tail.split()[:2]
            if int(ppid) == parent and state != "Z":
                arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                yield ChildProcess(int(folder.name), " ".join(arguments).strip(), head.partition("(")[2])
        except (OSError, ValueError):
            continue
