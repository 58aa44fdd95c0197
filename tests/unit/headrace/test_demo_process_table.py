"""Children of a process, as /proc tells them."""

import os
import subprocess
import sys
from pathlib import Path

from headrace.demo.process_table import ChildProcess, children_of


def write_process(proc: Path, pid: int, parent: int, *, state: str = "S", name: str = "python", command: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} ({name}) {state} {parent} 1 1 0\n")
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")


def test_living_children_are_listed_by_pid_with_their_command(tmp_path: Path) -> None:
    write_process(tmp_path, 30, 10, command="python -m b")
    write_process(tmp_path, 20, 10, command="python -m a")
    write_process(tmp_path, 40, 20, command="python -m grandchild")
    write_process(tmp_path, 50, 10, state="Z", command="python -m dead")
    (tmp_path / "meminfo").write_text("")
    assert children_of(10, tmp_path) == [
        ChildProcess(20, "python -m a", "python"),
        ChildProcess(30, "python -m b", "python"),
    ]


def test_a_name_with_parentheses_and_spaces_does_not_confuse_it(tmp_path: Path) -> None:
    write_process(tmp_path, 20, 10, name="a) S 99 (b", command="x")
    assert [child.pid for child in children_of(10, tmp_path)] == [20]


def test_a_process_that_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "20").mkdir()
    assert children_of(10, tmp_path) == []


def test_a_real_child_is_found() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in [found.pid for found in children_of(os.getpid())]
    finally:
        child.communicate(b"\n")
