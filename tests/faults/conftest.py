"""One home folder with a durable embedded Postgres for all rounds of a worker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.adapters.embedded.server import open_embedded
from tests import soak
from tests.faults.ground import Ground


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="noetl-faults-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        server = open_embedded(home / "postgres")
        yield Ground(home, server)
        server.stop()


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tell the soak what was killed in a test, and how many executions it started."""
    found = request.getfixturevalue("ground") if "ground" in request.fixturenames else None
    yield
    if isinstance(found, Ground):
        for what, count in found.tally().items():
            soak.happened(request.node, what, count)
