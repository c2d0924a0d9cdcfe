"""An API of its own for each test."""

from __future__ import annotations

import pytest

from tests.unit.api.ground import Ground


@pytest.fixture
def ground() -> Ground:
    return Ground()
