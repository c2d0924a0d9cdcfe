"""When an execution can be redriven, and from what."""

from noetl.domain.redrive import refusal
from noetl.domain.state import ExecutionState, Token
from tests.parts import over

FAILED = {"status": "failed", "program": "p"}


@over(
    ("state", "step", "why"),
    [
        ({"status": "running", "program": "p"}, "", "it is running"),
        ({"status": "paused", "program": "p"}, "load", "it is paused"),
        ({"status": "failed"}, "load", "it never began"),
        ({"status": "completed", "program": "p"}, "", "it completed"),
        ({"status": "completed", "program": "p"}, "load", ""),
        ({**FAILED, "left": [Token(3, "load", "failed")]}, "", ""),
        ({**FAILED, "left": []}, "", "it was compensated"),
        ({**FAILED, "left": []}, "load", ""),
        ({**FAILED, "left": [Token(1, "start", "arrived")]}, "", "before its first step"),
    ],
)
def test_what_cannot_be_redriven_says_why(state, step, why):
    found = refusal(ExecutionState(**state), step)
    assert (why in found) if why else found == ""
