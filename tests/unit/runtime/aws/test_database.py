"""Where the functions of a deployment find the database."""

from __future__ import annotations

import pytest

from noetl.runtime.aws import database
from noetl.runtime.aws.settings import CloudSettings


@pytest.mark.parametrize(("reader", "host"), [("reader.test", "reader.test"), ("", "writer.test")])
def test_queries_of_people_stay_off_the_primary_where_there_is_a_reader(monkeypatch, reader, host):
    monkeypatch.setattr(database, "make_client", lambda name: None)
    monkeypatch.setattr(database, "database_dsn", lambda client, secret, host: f"{secret}@{host}")
    made = database.history_sql(
        CloudSettings("t", "results", reader_secret="kept", reader_host=reader, database_host="writer.test")
    )
    assert made is not None and made._address() == f"kept@{host}"  # type: ignore[attr-defined]
    assert made._apart is bool(reader)  # type: ignore[attr-defined]
