"""Rows of files, sound and faulty."""

import io

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyarrow import table as arrow_table

from producers.sources.images import read_images
from producers.sources.item import Item, ItemError
from producers.sources.rows import RowOptions, count_rows, read_rows
from schemas.errors import ConfigurationError
from schemas.records import JPEG, JSON, NPY, TEXT

OPTIONS = RowOptions(limit_bytes=50)


def write(tmp_path, name, content: bytes):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_each_json_line_is_a_request_as_it_stands(tmp_path):
    path = write(tmp_path, "a.jsonl", b'{"id": "x", "n": 1}\n\n  [1]  \r\n"last"')
    rows = list(read_rows(path, RowOptions(50, id_column="id")))
    assert [(row.sequence, row.payload, row.label) for row in rows] == [
        (0, b'{"id": "x", "n": 1}', "x"),
        (1, b"[1]", "1"),
        (2, b'"last"', "2"),
    ]
    assert {row.content_type for row in rows} == {JSON}


def test_a_faulty_line_costs_itself_only(tmp_path):
    deep = b"[" * 40
    path = write(tmp_path, "a.jsonl", b"1\nnope\n" + b'"' + b"x" * 60 + b'"\n' + deep + b"\n\xff\n2\n")
    rows = list(read_rows(path, OPTIONS))
    assert [type(row) for row in rows] == [Item, ItemError, ItemError, ItemError, ItemError, Item]
    assert "longer than 50 bytes" in rows[2].message
    assert [row.sequence for row in rows] == list(range(6))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes_are_counted_as_they_are_read(tmp_path, content):
    path = write(tmp_path, "a.txt", content)
    rows = list(read_rows(path, OPTIONS))
    assert count_rows(path, OPTIONS) == len(rows)
    assert all(len(row.payload) <= 50 for row in rows if isinstance(row, Item))


def test_text_lines_are_text(tmp_path):
    path = write(tmp_path, "a.txt", b"one\ntwo\n")
    assert [(row.payload, row.content_type) for row in read_rows(path, OPTIONS)] == [(b"one", TEXT), (b"two", TEXT)]


def test_the_rows_of_an_array_run_along_its_first_axis(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.arange(4.0).reshape(2, 2))
    rows = list(read_rows(tmp_path / "a.npy", RowOptions(1000)))
    assert [numpy.load(io.BytesIO(row.payload)).tolist() for row in rows] == [[0.0, 1.0], [2.0, 3.0]]
    assert {row.content_type for row in rows} == {NPY}
    assert count_rows(tmp_path / "a.npy", OPTIONS) == 2


def test_an_array_that_would_need_pickle_is_refused(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ConfigurationError, match="without objects"):
        list(read_rows(tmp_path / "a.npy", OPTIONS))


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04"])
def test_a_file_that_is_no_array_is_refused(tmp_path, content):
    with pytest.raises(ConfigurationError, match=r"a\.npy"):
        list(read_rows(write(tmp_path, "a.npy", content), OPTIONS))


def test_parquet_rows_are_objects_or_one_column(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow_table({"id": [7, 8], "image": [b"\xff\xd8\xff", None], "text": ["t", "u"]}), path)
    whole = list(read_rows(path, RowOptions(1000, id_column="id")))
    assert [row.label for row in whole] == ["7", "8"]
    assert whole[1].payload == b'{"id":8,"image":null,"text":"u"}'
    images = list(read_rows(path, RowOptions(1000, payload_column="image")))
    assert (images[0].payload, images[0].content_type) == (b"\xff\xd8\xff", JPEG)
    texts = list(read_rows(path, RowOptions(1000, payload_column="text")))
    assert (texts[0].payload, texts[0].content_type) == (b"t", TEXT)
    assert count_rows(path, OPTIONS) == 2


def test_a_missing_column_is_named_with_those_there_are(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow_table({"n": [1]}), path)
    with pytest.raises(ConfigurationError, match="no column id; there are n"):
        list(read_rows(path, RowOptions(10, id_column="id")))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.jsonl", RowOptions(100, id_column="nope"), "no column nope; there are a, b"),
        ("a.jsonl", RowOptions(100, payload_column="a"), "payload column a: only .parquet"),
        ("a.txt", RowOptions(100, id_column="a"), "id column a: only .jsonl"),
    ],
)
def test_a_column_that_cannot_be_is_refused_before_anything_is_read(tmp_path, name, options, message):
    path = tmp_path / name
    path.write_text('{"a": 1, "b": 2}\n')
    for use in (count_rows, read_rows):
        with pytest.raises(ConfigurationError, match=message):
            use(path, options)


@pytest.mark.parametrize("name", ["a.csv", "a", "absent.jsonl"])
def test_what_cannot_be_read_is_named(tmp_path, name):
    if name != "absent.jsonl":
        write(tmp_path, name, b"")
    with pytest.raises(ConfigurationError, match=name):
        list(read_rows(tmp_path / name, OPTIONS))


def test_a_broken_parquet_file_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="not a Parquet file"):
        list(read_rows(write(tmp_path, "a.parquet", b"PAR1"), OPTIONS))


def test_a_folder_yields_its_images_in_order_and_names_what_is_none(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path, "b.jpg", b"\xff\xd8\xff1")
    write(tmp_path, "a.PNG", b"\x89PNG\r\n\x1a\n")
    write(tmp_path, "c.jpg", b"text")
    write(tmp_path, "notes.md", b"")
    write(tmp_path / "sub", "d.jpeg", b"\xff\xd8\xff" + b"x" * 100)
    found = list(read_images(tmp_path, limit_bytes=50))
    assert [(type(each), each.label) for each in found] == [
        (Item, "a.PNG"),
        (Item, "b.jpg"),
        (ItemError, "c.jpg"),
        (ItemError, "sub/d.jpeg"),
    ]


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="holds no image"):
        list(read_images(tmp_path, limit_bytes=50))
    with pytest.raises(ConfigurationError, match="is not a folder"):
        list(read_images(tmp_path / "absent", limit_bytes=50))


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, name):
    path = tmp_path / name
    path.write_text("[1]\n[2]\n", encoding="utf-8-sig")
    assert [item.payload for item in read_rows(path, RowOptions(100))] == [b"[1]", b"[2]"]
    assert count_rows(path, RowOptions(100)) == 2
