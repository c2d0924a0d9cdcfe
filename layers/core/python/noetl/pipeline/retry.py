"""Retries: how often, after how long, and (event form, step level) whether at all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noetl.domain.durations import parse_duration
from noetl.domain.errors import InvalidInputError, TemplateError
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.dsl.program import Expr, Node, RetryAction, StepRetry, Text
from noetl.pipeline import tracing
from noetl.pipeline.errors import located, place_of
from noetl.pipeline.state import Frame, LatestOutcome, latest

if TYPE_CHECKING:
    from noetl.pipeline.run import Run

MAX_DELAY = 366 * 86_400.0
"""Seconds; a longer delay is cut to this."""
FULL_JITTER = 0.5
"""The part of a delay that ``jitter: true`` leaves to chance."""
MOST_REQUESTED = 3600.0
"""Seconds that a service may ask for with Retry-After where the playbook names no ``max_delay``."""
_MISCONFIGURED = frozenset(
    {
        *("credential_not_found", "credential_not_named", "credential_invalid", "credential_shape"),
        *("credentials_file", "auth_missing", "auth_invalid"),
    }
)
"""Codes of what a person has to change before a call can succeed."""
_TRIES = "a whole number of at least 1"


def allowed_attempts(run: Run, action: RetryAction) -> int:
    """Return the total number of tries.

    Raises InvalidInputError(code="retry_params") for anything but a whole number of at least 1.
    """
    value = run.render(action.attempts)
    try:
        count = _number(value, "attempts", _TRIES)
        if count < 1 or count != int(count):
            raise _misfit("attempts", value, _TRIES)
    except InvalidInputError as error:
        raise located(error, place_of(action.attempts)) from None
    return int(count)


def wait_before(
    run: Run, action: RetryAction, tried: int, chance: float, error: ErrorInfo | None = None
) -> float:
    """Return the seconds to wait after attempt ``tried``.

    ``chance`` in [0, 1) makes the jitter.

    When a service stated how long to wait (``details.retry_after`` of ``error``), it is not called before that, unless ``max_delay`` is
    shorter.
    """
    try:
        return _delay(run, action, tried, chance, _retry_after(error))
    except InvalidInputError as problem:
        raise located(problem, action.pos) from None


def _retry_after(error: ErrorInfo | None) -> float:
    retry_after = error.details.get("retry_after") if error is not None else None
    if isinstance(retry_after, bool) or not isinstance(retry_after, (int, float)) or not retry_after > 0:
        return 0.0
    return float(retry_after)


def _delay(run: Run, action: RetryAction, tried: int, chance: float, retry_after: float) -> float:
    delay = _seconds(run.render(action.delay), "delay")
    if action.backoff == "linear":
        delay *= tried
    elif action.backoff == "exponential":
        delay *= _power(_number(run.render(action.multiplier), "multiplier"), tried - 1)
    longest, longest_requested = MAX_DELAY, MOST_REQUESTED
    if action.max_delay is not None and (limit := run.render(action.max_delay)) is not None:
        longest = longest_requested = min(_seconds(limit, "max_delay"), MAX_DELAY)
    delay = min(delay, longest)
    if action.jitter is not None:
        delay *= 1 - chance * _jitter(run.render(action.jitter))
    return max(delay, min(retry_after, longest_requested))


def wants_retry(run: Run, retry: StepRetry, last: LatestOutcome, meaning: int) -> bool:
    """Return whether the step-level ``retry`` wants another call.

    It does until ``stop_when`` is true, or while ``retry_when`` is true; by default after a failed call. A call whose templates could not
    be rendered would fail in the same way again; so does one, since meaning 5, whose credential is missing or does not fit.
    """
    if retry.stop_when is not None and holds(run.is_true, retry.stop_when, ok=last.ok):
        return False
    if retry.retry_when is not None:
        return holds(run.is_true, retry.retry_when, ok=last.ok)
    if last.error is not None and "template" in last.error.details:
        return False
    if last.error is not None and last.error.code in _MISCONFIGURED and meaning > 4:
        return False
    return retry.stop_when is not None or not last.ok


def holds(is_true: Callable[[Node], bool], guard: Node, *, ok: bool) -> bool:
    """Evaluate a guard; one that touches what the outcome cannot have is false.

    A success (``ok``) has no ``error``, a failure no ``response``. Raises TemplateError.
    """
    try:
        return is_true(guard)
    except TemplateError as error:
        if error.code == "undefined" and _touches(guard, _ABSENT[ok]):
            return False
        raise


_ABSENT = {True: re.compile(r"\berror\b"), False: re.compile(r"\b(response|result|data|status_code)\b")}


def _touches(guard: Node, names: re.Pattern[str]) -> bool:
    return isinstance(guard, (Expr, Text)) and names.search(guard.source) is not None


def exhausted(retry: StepRetry | None, attempts: int, last: LatestOutcome) -> ErrorInfo:
    """Return the error of a call that has no attempts left."""
    if last.error is not None and (retry is None or retry.stop_when is None):
        return last.error
    details: dict[str, Any] = {"attempts": attempts}
    if last.error is not None:
        details["last_error"] = last.error.message
    return ErrorInfo(
        f"still not done after {attempts} attempts",
        "timeout",
        "retry_exhausted",
        hint="raise max_attempts or the delay, or loosen stop_when",
        details=details,
    )


def _power(multiplier: float, exponent: int) -> float:
    try:
        return min(multiplier**exponent, MAX_DELAY)
    except OverflowError:
        return MAX_DELAY


def _jitter(value: Any) -> float:
    if isinstance(value, bool) or value is None:
        return FULL_JITTER if value else 0.0
    return min(1.0, _number(value, "jitter"))


def _seconds(given: Any, what: str) -> float:
    """Read a number of seconds, or a duration such as ``10m``."""
    found = parse_duration(given) if isinstance(given, str) else None
    return _number(given if found is None else found, what)


def _number(given: Any, what: str, wanted: str = "a number of at least 0") -> float:
    value = given
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise _misfit(what, given, wanted) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise _misfit(what, given, wanted)
    return float(min(value, 2**53))


def _misfit(what: str, value: Any, wanted: str) -> InvalidInputError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    return InvalidInputError(
        f"retry: {what} must be {wanted}, not {shown}", code="retry_params", hint=f"give `{what}` {wanted}"
    )


def schedule_retry(run: Run, frame: Frame, action: Any, allowed: int) -> None:
    """Run the same call again, after the delay of this try."""
    delay = wait_before(run, action, frame.attempt, frame.chance, latest(frame).error)
    frame.answer, frame.delay = "retry", delay
    frame.again = tracing.retry_plan(frame, action, allowed, delay)
