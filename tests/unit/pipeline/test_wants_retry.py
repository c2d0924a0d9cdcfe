"""Which failures a step-level ``retry`` without a condition calls again, by the meaning of the program."""

from __future__ import annotations

from typing import Any, cast

import pytest

from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.dsl import program as p
from noetl.pipeline.retry import wants_retry
from noetl.pipeline.state import LatestOutcome
from tests.parts import over

NO_RUN = cast("Any", None)
"""No condition is rendered, so there is no run."""
MISCONFIGURED = (
    *("credential_not_found", "credential_not_named", "credential_invalid", "credential_shape"),
    *("credentials_file", "auth_missing", "auth_invalid"),
)


def again(code: str, meaning: int, **details: Any) -> bool:
    failed = LatestOutcome(error=ErrorInfo("no", "auth", code=code, details=details))
    return wants_retry(
        NO_RUN, p.StepRetry(p.RetryAction(p.LiteralNode(3), p.LiteralNode(0))), failed, meaning
    )


@over("code", MISCONFIGURED)
def test_a_missing_credential_is_called_again_up_to_meaning_4(code):
    assert [again(code, meaning) for meaning in (1, 2, 3, 4, 5)] == [True, True, True, True, False]


@pytest.mark.parametrize("meaning", [4, 5])
def test_other_failures_are_called_again_and_broken_templates_never(meaning):
    assert again("unauthorized", meaning)
    assert not again("credential_not_found", meaning, template="{{ x }}")
