"""Which states rest: nothing of the execution can move by itself."""

from __future__ import annotations

import math

from noetl.domain.state import ExecutionState, Token, rest_until
from tests.parts import over

WORKING = Token(1, "a", "body")
PARKED = Token(2, "b", "parked")
AWAITING = Token(3, "c", "body", serial=0)
JOINING = Token(4, "d", "arrived")
EARLY, LATE = Token(5, "e", "body", wakes=50.0), Token(6, "f", "body", wakes=90.0)


def state(*tokens: Token, **more) -> ExecutionState:
    return ExecutionState(tokens={token.run: token for token in tokens}, **more)


@over(
    ("given", "until"),
    [
        (state(), None),
        (state(JOINING), None),
        (state(WORKING), None),
        (state(PARKED, WORKING), None),
        (state(PARKED), math.inf),
        (state(AWAITING, JOINING), math.inf),
        (state(PARKED, LATE, EARLY), 50.0),
        (state(EARLY, WORKING), None),
        (state(WORKING, status="paused"), math.inf),
        (state(PARKED, status="failed"), None),
    ],
)
def test_rest(given, until):
    assert rest_until(given) == until
