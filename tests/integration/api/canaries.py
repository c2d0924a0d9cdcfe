"""Secrets that can be told from everything else, and where they are looked for: tables, files, whatever was said."""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

# Characters that JSON, URLs and base64 write in other ways.
BASIC = 'cnry-basic/"+&=%é 7f3a91'
BEARER = "cnry-bearer/+=%~5c0d22"
CLIENT = "cnry-client:/+%&b81e44"
TOKEN = "cnry-token/+=9aa10c"
HIDDEN = "cnry-database-66d2e7"
INSIDE = "cnry-inside@/:4fa0"
"""Stands, percent-encoded, in a connection string."""
LONG = "cnry-long-" + "8c1f+7" * 14
KEY = """-----BEGIN PRIVATE KEY-----
cnry-line1/9bQ+x"'<0aa71f
cnry-line2&%3d=\\ 5bc02e
-----END PRIVATE KEY-----
"""
NESTED = "cnry-nested-e07b21"
PIN = 88015773409
CANARIES = (BASIC, BEARER, CLIENT, TOKEN, HIDDEN, INSIDE, LONG, NESTED, *KEY.splitlines()[1:3], str(PIN))
WITHIN = b"cnry-"
"""In all of them: whatever was cut or written in an unforeseen way still shows this."""


def forms(secret: str) -> set[bytes]:
    """Ways a secret may be written."""
    data = secret.encode()
    found = {data, json.dumps(secret)[1:-1].encode(), json.dumps(secret, ensure_ascii=False)[1:-1].encode()}
    found |= {quote(secret, safe="").encode(), quote(secret).encode(), data.hex().encode()}
    found |= {html.escape(secret).encode(), repr(secret)[1:-1].encode(), repr(data)[2:-1].encode()}
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data)
        core = whole[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        found |= {core, core.replace(b"+", b"-").replace(b"/", b"_")}
    return found


FORMS = {form: secret for secret in CANARIES for form in forms(secret)}


def found_in(text: bytes) -> list[str]:
    return sorted(
        {secret for form, secret in FORMS.items() if form in text} | ({"cnry-"} if WITHIN in text else set())
    )


def rows(dsn: str) -> Iterator[tuple[str, bytes]]:
    """Every row of every table, in whatever schema it is."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert ("noetl", "credential") in tables and ("noetl", "auth_cache") in tables
        for schema, table in tables:
            query = sql.SQL("SELECT to_json(t)::text FROM {} t").format(sql.Identifier(schema, table))
            for (row,) in connection.execute(query):
                yield f"{schema}.{table}", row.encode()
            as_record = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, table))
            for (row,) in connection.execute(as_record):
                yield f"{schema}.{table}", row.encode()


def leaks(dsn: str, home: Path, said: dict[str, bytes]) -> list[tuple[str, list[str]]]:
    """Where a secret was found: rows, files (their names too), and whatever was said."""
    places = [*rows(dsn), *said.items()]
    for folder, folders, files in os.walk(home):
        names = [Path(folder, name) for name in (*folders, *files)]
        places += [(str(path), str(path).encode()) for path in names]
        for path in names:
            with suppress(FileNotFoundError):  # The server may have removed it since it was listed.
                if path.is_file():
                    places.append((str(path), path.read_bytes()))
    return [(place, shown(text)) for place, text in places if found_in(text)]


def shown(text: bytes) -> list[bytes]:
    """Where the secrets stand in a text that has some."""
    marks = [*FORMS, WITHIN]
    return [text[max(0, at - 60) : at + 40] for form in marks if (at := text.find(form)) >= 0]
