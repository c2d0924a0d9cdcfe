"""What the store tests share: a store with its dsn, and small changes."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from noetl.adapters.postgres import PostgresExecutionStore
from tests.contract.builders import Make


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def store(database: str) -> Iterator[PostgresExecutionStore]:
    found = PostgresExecutionStore(database)
    yield found
    found.close()


@pytest.fixture
def admin(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection
