"""Random inputs to every route and every language of a playbook: no 500, no crash, and none that takes more than two seconds of processor.

``make test`` draws a few, always the same; ``make fuzz`` draws 100,000 others (INPUTS=…), and prints how many it was.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from noetl.domain.errors import NoetlError
from tests.fuzz.surfaces import ROUTES, SURFACES
from tests.notes import NOTES
from tests.parts import repeated

WISHED = int(os.environ.get("NOETL_FUZZ_INPUTS", "0"))
INPUTS = WISHED or repeated(gate=150, full=1200)
MOST_SECONDS = 2.0
"""Processor time of one input; a busy machine does not count."""
ALL = {"routes": ROUTES, **SURFACES}


def measured(feed: Callable[[Any], object], drawn: Any) -> None:
    """Feed one input. A refusal is an answer; everything else that is raised is a defect.

    The garbage collector waits meanwhile: it walks over everything that tests before this one have left, for seconds after many requests,
    and that is no work of this input.
    """
    gc.disable()
    began = time.thread_time()
    try:
        with contextlib.suppress(NoetlError):
            feed(drawn)
        spent = time.thread_time() - began
    finally:
        gc.enable()
    assert spent <= MOST_SECONDS, f"{spent:.1f} s of processor for {drawn!r}"


@pytest.mark.timeout(14_400 if WISHED else 900)
@pytest.mark.parametrize("name", ALL)
def test_any_input_is_answered(name):
    surface, count = ALL[name], 0

    @settings(
        max_examples=max(20, int(INPUTS * surface.share)),
        deadline=None,
        database=None,
        derandomize=not WISHED,
        suppress_health_check=list(HealthCheck),
    )
    @given(surface.inputs)
    def run(drawn: Any) -> None:
        nonlocal count
        count += 1
        measured(surface.feed, drawn)

    run()
    NOTES.append(f"fuzz {name}: {count} inputs")
    assert count >= 20
