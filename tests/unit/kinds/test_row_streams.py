"""Rows of CSV, JSONL, JSON and Parquet come chunk by chunk, and what is none is refused with its place."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl.domain.errors import TaskError
from noetl.kinds.rows import reading
from noetl.kinds.rows.formats import format_of
from noetl.kinds.rows.parquet import read_parquet
from noetl.kinds.rows.reading import read_rows, read_values
from tests.parts import over


class Dripping(io.BytesIO):
    """Gives one byte a time: every boundary that a chunk can have."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(1, size or 0))


ROWS = [
    {"id": 1, "name": 'a,\n"b" é'},
    {"id": 23456789012345678901234, "name": None},
    {"id": -1.5e3, "name": [1, {}]},
]
SPELLINGS = {
    "list": b'\xef\xbb\xbf [ {"id":1,"name":"a,\\n\\"b\\" \\u00e9"} , {"id":23456789012345678901234,"name":null},'
    b'{"id":-1.5e3,"name":[1,{}]}]\n',
    "of_sql": '{"columns":["id","rows"],"rows":[{"id":1,"name":"a,\\n\\"b\\" é"},{"id":23456789012345678901234,"name":null},'
    '{"id":-1.5e3,"name":[1,{}]}],"row_count":3}'.encode(),
}


@over("spelling", SPELLINGS)
@over("stream", [io.BytesIO, Dripping])
def test_json_is_read_while_it_arrives(stream: Any, spelling: str) -> None:
    assert list(read_rows(stream(SPELLINGS[spelling]), "json", chunk_rows=2)) == [ROWS[:2], ROWS[2:]]


def test_values_of_a_list_may_be_of_any_type() -> None:
    numbers = b'[12, "x", null, [3], 1.5, -2.5e-3, 7E2,0.25]'
    assert list(read_values(Dripping(numbers), "json")) == [12, "x", None, [3], 1.5, -0.0025, 700, 0.25]
    assert list(read_values(io.BytesIO(b'12\n\n"x"\r\nnull'), "jsonl")) == [12, "x", None]
    assert list(read_values(io.BytesIO(b" [ ] "), "json")) == []


@pytest.mark.parametrize("stream", [io.BytesIO, Dripping])
def test_csv_keeps_quotes_line_ends_and_blank_fields(stream: Any) -> None:
    text = '\ufeffid;note\r\n1;"two\r\nlines; ""quoted"""\r\n\r\n2;'
    assert list(read_rows(stream(text.encode()), "csv", delimiter=";")) == [
        [{"id": "1", "note": 'two\r\nlines; "quoted"'}, {"id": "2", "note": ""}]
    ]
    assert list(read_rows(io.BytesIO(b""), "csv")) == []
    assert list(read_rows(stream(b"n\n1\n\n3\n"), "csv")) == [[{"n": "1"}, {"n": ""}, {"n": "3"}]]


def test_parquet_comes_from_a_stream_and_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "it's.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT i AS id, (i + 0.10)::DECIMAL(20,2) AS price, TIMESTAMPTZ '2026-01-02 03:04:05+02' AS at, '{\"a\":1}'::JSON AS j,"
            f" NULL::VARCHAR AS none FROM range(5) t(i)) TO '{str(path).replace(chr(39), chr(39) * 2)}'"
        )
    rows = [
        {"id": i, "price": i + 0.1, "at": "2026-01-02T01:04:05+00:00", "j": {"a": 1}, "none": None}
        for i in range(5)
    ]
    assert list(read_rows(io.BytesIO(path.read_bytes()), "parquet", chunk_rows=3, folder=str(tmp_path))) == [
        rows[:3],
        rows[3:],
    ]
    assert list(read_parquet(path, skip=4)) == [rows[4:]]
    assert list(tmp_path.iterdir()) == [path]


@over(
    "format, data, message",
    [
        ("csv", b"a,b\n1,2\n3\n", "line 3 has fewer fields"),
        ("csv", b"a,b\n1,2,3\n", "line 2 has more fields"),
        ("csv", b"a,a\n", "the header names 'a' twice"),
        ("csv", b'a\n"x" y\n', "line 2"),
        ("csv", b"a\n1\n\xff\n", "line 3: 'utf-8'"),
        ("jsonl", b'{"a":1}\n{"a":\n', "line 2"),
        ("jsonl", b'{"a":1}\n[2]\n', "row 2 is a list"),
        ("json", b'[{"a":1},{"a":2}', "row 2: ',' is missing where 'the end'"),
        ("json", b'[{"a":1} {"a":2}]', "row 1: ',' is missing where '{'"),
        ("json", b'[{"a":NaN}]', "NaN is not JSON"),
        ("json", b'[{"a":1},]', "row 2"),
        ("json", b"[] 7", "something follows"),
        ("json", b"[], {}", "something follows"),
        ("json", b'{"rows":[{}]', "it ends behind the list"),
        ("json", b'{"a":[{}]}', "a mapping without 'rows'"),
        ("json", b'{"rows":7}', "'[' is missing"),
        ("json", b"7", "neither a list"),
        ("json", b"", "neither a list"),
        ("json", b"[" * 100_000, "recursion"),
        ("parquet", b"PAR0", "the lake's object cannot be read as parquet"),
    ],
)
def test_what_is_none_of_it_is_refused_with_its_place(format: Any, data: bytes, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        list(read_rows(io.BytesIO(data), format, what="the lake's object"))
    assert message in caught.value.message
    assert "the lake's object" in caught.value.message and "SELECT" not in caught.value.message
    assert (caught.value.kind, caught.value.code) == ("parse", "object_format")


@over(
    "format, data",
    [
        ("csv", b'a\n"' + b"x\n" * 2000),
        ("csv", b"a,b\n1," + b"x" * 2000),
        ("csv", b"a,b\n1" + b',"\n"' * 2000),
        ("jsonl", b'{"a":"' + b"x" * 2000),
        ("json", b'[{"a":"' + b"x" * 2000),
    ],
)
def test_a_row_without_an_end_is_refused_before_it_is_held(
    format: Any, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "ROW_BYTES", 1000)
    monkeypatch.setattr(reading, "_BLOCK", 100)
    endless = _Endless(data)
    with pytest.raises(TaskError) as caught:
        list(read_rows(endless, format))
    assert caught.value.code == "row_too_large"
    assert endless.given < 4000


class _Endless:
    def __init__(self, data: bytes) -> None:
        self._data, self.given = io.BytesIO(data), 0

    def read(self, size: int, /) -> bytes:
        self.given += size
        return self._data.read(size) or b"x" * size


def test_wide_rows_make_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 40)
    chunks = list(read_rows(io.BytesIO(b'{"a":"%s"}\n' % (b"x" * 40) * 3), "jsonl"))
    assert [len(chunk) for chunk in chunks] == [1, 1, 1]


def test_a_format_follows_from_a_name_or_a_media_type() -> None:
    assert [format_of(name) for name in ("a/b.CSV", "x.ndjson", "x.json", "x.parquet", "x", ".csv.d/x")] == [
        "csv",
        "jsonl",
        "json",
        "parquet",
        None,
        None,
    ]
    assert format_of("x", "text/csv; charset=utf-8") == "csv"
