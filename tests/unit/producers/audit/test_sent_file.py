from pathlib import Path

import pytest

from producers.audit.sent_file import format_sent_line, read_offsets_file, read_sent_file, write_offsets_file
from schemas.errors import ConfigurationError
from schemas.records import Position


def test_a_sent_file_comes_back_as_it_was_written_but_for_a_last_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    path.write_bytes(format_sent_line("a", Position("t", 1, 2), "k") + b'{"id": "b", "top')
    (record,) = read_sent_file(path)
    assert (record.id, record.position, record.key) == ("a", Position("t", 1, 2), "k")


@pytest.mark.parametrize("text", [b"nonsense\n", b'{"id": 1}\n', b"\xff\n"])
def test_a_malformed_line_of_a_sent_file_is_named(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "sent.jsonl"
    path.write_bytes(format_sent_line("a", Position("t", 1, 2)) + text)
    with pytest.raises(ConfigurationError, match="line 2"):
        list(read_sent_file(path))


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        list(read_sent_file(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="No such file"):
        read_offsets_file(tmp_path / "none")


def test_offsets_come_back_as_they_were_written(tmp_path: Path) -> None:
    offsets = {("a", 0): 1, ("a", 11): 2, ("b", 0): 3}
    write_offsets_file(tmp_path / "offsets.json", offsets)
    assert read_offsets_file(tmp_path / "offsets.json") == offsets
