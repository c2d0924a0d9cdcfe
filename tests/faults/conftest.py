"""One home folder with a durable embedded Postgres for all rounds of a worker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.adapters.embedded.server import open_embedded
from tests.faults.ground import Ground


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="noetl-faults-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        server = open_embedded(home / "postgres")
        yield Ground(home, server)
        server.stop()
