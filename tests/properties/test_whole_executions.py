"""Whole executions through the public doors of a real ``noetl serve``: random programs, the worst data, callers who change their minds.

``NOETL_SOAK_EXECUTIONS`` says how many executions are started, ``NOETL_FIRST_SEED`` begins with other stories. An example that fails names
the command that plays it again.
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, seed, settings
from hypothesis import strategies as st

from tests import soak
from tests.notes import NOTES
from tests.parts import repeated
from tests.properties.whole.laws import check_everything
from tests.properties.whole.served import Served, served
from tests.properties.whole.story import Story, play

pytestmark = pytest.mark.postgres

EXECUTIONS = int(os.environ.get("NOETL_SOAK_EXECUTIONS", repeated(gate=10, full=150)))
STARTS = 10 if EXECUTIONS < 1000 else 30
"""Executions that a story starts."""
FIRST = int(os.environ.get("NOETL_FIRST_SEED", "0"))
GROWTH_MB = 200
"""What the process may grow by: caches fill, and a story of 40 executions adds some 200 kB to them, until those are full."""

STORIES = st.builds(
    Story,
    st.integers(0, 2**32),
    programs=st.integers(1, 3),
    starts=st.just(STARTS),
    changes=st.integers(0, 30),
    probes=st.integers(0, 30),
    wrong=st.integers(0, 4),
    commands=st.integers(0, 2),
    rude=st.sampled_from((0.0, 0.2, 0.5, 0.9)),
)


@pytest.fixture(scope="module")
def place(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home: Path = tmp_path_factory.mktemp("home")
    with served(module_database, home) as made:
        yield made


@pytest.mark.soak("whole executions")
def test_whole_executions_come_to_their_end_and_are_shown(
    request: pytest.FixtureRequest, place: Served
) -> None:
    stuck: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    played: set[int] = set()
    before = _megabytes()

    @seed(FIRST)
    @settings(
        max_examples=max(1, -(-EXECUTIONS // STARTS)),
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(STORIES)
    def plays(story: Story) -> None:
        # A seed that is played twice in one database repeats its idempotency keys, and is given the executions of the first time.
        assume(story.seed not in played)
        played.add(story.seed)
        note(f"seed {FIRST}; play it again: python -m tests.properties.whole.replay {story.words}")
        told = play(story, place)
        stuck.update(told.stuck)
        ends.update(told.ends)

    try:
        plays()
    finally:
        soak.happened(request.node, "stories", len(played))
        soak.happened(request.node, "executions", ends.total())
    everything = check_everything(place)
    grown = _megabytes() - before
    assert grown < GROWTH_MB, f"the process has grown by {grown} MB"
    NOTES.append(f"whole executions: seed {FIRST}, {everything} in the list, {dict(ends)}, {dict(stuck)}")


def _megabytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
