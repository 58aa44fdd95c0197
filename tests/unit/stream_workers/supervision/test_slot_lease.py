from pathlib import Path

import pytest

from schemas.errors import ConfigurationError
from stream_workers.supervision.slot_lease import lease_slots


def numbers(folder: Path, count: int) -> list[int]:
    return [lease.number for lease in lease_slots(folder, count)]


def test_the_lowest_free_numbers_are_leased(tmp_path: Path) -> None:
    first = lease_slots(tmp_path, 2)
    second = lease_slots(tmp_path, 1)
    assert [lease.number for lease in first + second] == [0, 1, 2]
    first[0].release()
    assert numbers(tmp_path, 2) == [0, 3]


def test_groups_do_not_share_numbers(tmp_path: Path) -> None:
    assert numbers(tmp_path / "a", 1) == numbers(tmp_path / "b", 1) == [0]


def test_a_folder_that_cannot_be_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"worker\.state_dir"):
        lease_slots(tmp_path / "file" / "below", 1)
