import os
from pathlib import Path

import pytest

from headrace.local_stack import stack_directory
from headrace.local_stack.stack_directory import StackDirectory, user_cache_dir
from schemas.errors import ConfigurationError, UnavailableError


def open_directory(path: Path, *, fresh: bool = False) -> StackDirectory:
    directory = StackDirectory(path)
    directory.open(fresh=fresh)
    return directory


def test_a_second_stack_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first = open_directory(tmp_path / "data")
    with pytest.raises(UnavailableError, match=f"process {os.getpid()}"):
        open_directory(tmp_path / "data")
    first.close()
    open_directory(tmp_path / "data").close()


def test_ports_are_remembered(tmp_path: Path) -> None:
    directory = open_directory(tmp_path / "data")
    directory.write_ports({"kafka": 20_001})
    directory.close()
    assert StackDirectory(tmp_path / "data").read_ports() == {"kafka": 20_001}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ports": 3}', '{"ports": {"kafka": "x"}}'])
def test_a_state_that_cannot_be_read_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "stack.json").write_text(text)
    assert StackDirectory(tmp_path).read_ports() == {}


def test_fresh_deletes_an_earlier_stack(tmp_path: Path) -> None:
    first = open_directory(tmp_path / "data")
    (tmp_path / "data" / "kafka").mkdir()
    (tmp_path / "data" / "kafka" / "log").write_text("records")
    first.close()
    open_directory(tmp_path / "data", fresh=True).close()
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [".headrace-stack", "stack.lock"]


def test_fresh_follows_no_link_out_of_the_directory(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("mine")
    open_directory(tmp_path / "data").close()
    (tmp_path / "data" / "link").symlink_to(precious)
    open_directory(tmp_path / "data", fresh=True).close()
    assert (precious / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_directory_with_other_files_is_left_alone(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="not a local stack's"):
        open_directory(tmp_path, fresh=fresh)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_path_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot use data directory .*file: File exists"):
        open_directory(tmp_path / "file")


def test_a_full_disk_is_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_directory, "MIN_FREE_BYTES", 1 << 62)
    with pytest.raises(ConfigurationError, match=r"only \d+ MB free"):
        open_directory(tmp_path / "data")


def test_the_cache_folder_follows_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_dir() == tmp_path / "headrace"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache_dir() == Path.home() / ".cache" / "headrace"
