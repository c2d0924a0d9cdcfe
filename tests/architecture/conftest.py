"""Makes ``source`` importable for the tests beside it, and has every file read once for all of them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="package", autouse=True)
def trees() -> Iterator[None]:
    """Keep the trees of all files while tests of this folder run; collecting garbage would look through all of them again and again."""
    import source

    gc.disable()
    yield
    source.tree.cache_clear()
    source.imported.cache_clear()
    gc.enable()
