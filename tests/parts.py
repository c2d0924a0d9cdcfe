"""What a run plays of many that are alike: ``make test`` a sample, ``make test-full`` all of them, ``make soak`` as many as it is asked for.

A test outside of the sample has the marker ``full``, which ``make test`` leaves out. What one test repeats is bounded by ``repeated``; what
is alike and costs nearly nothing is one test that goes ``over`` it. The table in CONTRIBUTING.md names every test of which ``make test``
plays a part.
"""

from __future__ import annotations

import functools
import inspect
import os
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest

ROW = type(pytest.param())
ENDS = (pytest.fail.Exception, pytest.skip.Exception, pytest.xfail.Exception)
"""A row may neither be skipped nor expected to fail: what the others found would not be seen."""
WHOLE = os.environ.get("NOETL_TESTS") == "full"
"""Whether this is ``make test-full``."""
GATE = os.environ.get("NOETL_TESTS") == "gate"
"""Whether this is ``make test``. Each of its processes collects every test, so of rows that it leaves out it makes one for each function."""


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
    return collected(
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)),
            marks=(*marks, *(() if row in played else (pytest.mark.full,))),
            **({} if ids is None else {"id": ids[number]}),
        )
        for number, row in enumerate(rows)
    )


def collected(rows: Iterable[Any]) -> list[Any]:
    """Take out of parameters what ``make test`` need not even collect: all but the first of those with the marker ``full``."""
    found, left = [], 0
    for row in rows:
        full = any(mark.name == "full" for mark in row.marks)
        if not (GATE and full and left):
            found.append(row)
        left += full
    return found


ABOUT_A_LIMIT = parted([-1, 0, 1], [0, 1])
"""One below a limit, at it, and one above; ``make test`` leaves the first to ``make test-full``."""


def repeated(gate: int, full: int) -> int:
    """How often one test repeats what it does, in ``make test`` and in ``make test-full``."""
    return full if WHOLE else gate


def over(
    names: str | tuple[str, ...],
    rows: Iterable[Any],
    ids: Iterable[str] | Callable[[Any], str] | None = None,
    **fresh: Callable[[], Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Play a test with every row, as one test, which names each row that fails.

    In place of ``parametrize`` for rows that are alike and cost less than a test of its own does (2 ms, with xdist). ``fresh``: parameters, and
    what makes each of them for every row; what a row did with ``monkeypatch`` is undone after it. Other fixtures are the same for all rows.
    """
    several = isinstance(names, tuple) or "," in names
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given: list[tuple[Any, ...]] = []
    named: dict[int, str] = {}
    for row in rows:
        if isinstance(row, ROW):
            if row.marks:
                raise ValueError("a row of a test has no marks of its own")
            named |= {len(given): row.id} if row.id else {}
        given.append(row.values if isinstance(row, ROW) else row if several else (row,))
    if not given:
        raise ValueError("a test needs a row")
    known = None if ids is None or callable(ids) else list(ids)

    def name_of(number: int) -> str:
        if number in named:
            return named[number]
        if known is not None:
            return known[number]
        show = ids if callable(ids) else repr
        return "-".join(str(show(value)) for value in given[number])[:200]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        if inspect.iscoroutinefunction(test) or inspect.isgeneratorfunction(test):
            raise TypeError("a test that goes over rows is a plain function: nothing would run it")
        signature = inspect.signature(test)
        fixtures = [one for name, one in signature.parameters.items() if name not in (*parameters, *fresh)]

        def play(row: tuple[Any, ...], shared: dict[str, Any]) -> None:
            values = dict(zip(parameters, row, strict=True))
            made = {name: make() for name, make in fresh.items()}
            with pytest.MonkeyPatch.context() as patch:
                own = {"monkeypatch": patch} if "monkeypatch" in shared else {}
                test(**{**shared, **values, **made, **own})

        @functools.wraps(test)
        def all_rows(**shared: Any) -> None:
            wrong = {}
            for number, row in enumerate(given):
                try:
                    play(row, shared)
                except (Exception, SystemExit, *ENDS) as error:
                    wrong[number] = "".join(traceback.format_exception(error)[-3:])
            if wrong:
                rows_that_fail = "".join(
                    f"\n--- {name_of(number)}\n{error}" for number, error in wrong.items()
                )
                pytest.fail(f"{len(wrong)} of {len(given)} rows fail:{rows_that_fail}", pytrace=False)

        all_rows.__signature__ = signature.replace(parameters=fixtures)
        return all_rows

    return decorate
