"""What a run plays of many that are alike: ``make test`` a sample, ``make test-full`` all of them, ``make soak`` as many as it is asked for.

A test outside of the sample has the marker ``full``, which ``make test`` leaves out; so both runs count the same tests. What one test repeats
is bounded by ``repeated``. The table in CONTRIBUTING.md names every test of which ``make test`` plays a part.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest

WHOLE = os.environ.get("NOETL_TESTS") == "full"
"""Whether this is ``make test-full``."""


def sampled(names: Iterable[str], of_each: int = 1) -> frozenset[str]:
    """Choose the sample: of each feature (the folder of a case) the cases with the least checksums.

    Checksums, and not the first by name: cases of a feature that are named alike are alike, and a new case moves one other at most.
    """
    features = groupby(sorted(names), key=lambda name: name.partition("/")[0])
    return frozenset(name for _, some in features for name in sorted(some, key=_checksum)[:of_each])


def _checksum(name: str) -> int:
    return zlib.crc32(name.encode())


def parted(
    rows: Iterable[Any], gate: Iterable[Any], ids: Sequence[str] | None = None, marks: Sequence[Any] = ()
) -> list[Any]:
    """Make parameters of all rows; those that are not in ``gate`` are left to ``make test-full``."""
    played = list(gate)
    return [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)),
            marks=(*marks, *(() if row in played else (pytest.mark.full,))),
            **({} if ids is None else {"id": ids[number]}),
        )
        for number, row in enumerate(rows)
    ]


ABOUT_A_LIMIT = parted([-1, 0, 1], [0, 1])
"""One below a limit, at it, and one above; ``make test`` leaves the first to ``make test-full``."""


def repeated(gate: int, full: int) -> int:
    """How often one test repeats what it does, in ``make test`` and in ``make test-full``."""
    return full if WHOLE else gate
