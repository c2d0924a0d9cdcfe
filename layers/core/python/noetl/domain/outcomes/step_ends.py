"""How a step may end: the words for it, and the guard that is true then."""

from __future__ import annotations

import re
from collections.abc import Sequence

EVENTS = {"done": "step.done", "loop.done": "loop.done", "failed": "step.failed"}
"""The words that name no error, with what ``event.name`` is then."""
ERROR_KINDS = frozenset(
    {
        *("connection", "timeout", "rate_limit", "auth", "not_found", "client_error", "server_error"),
        *("db_connection", "db_constraint", "db_deadlock", "db_timeout"),
        *("schema", "parse", "transform", "template", "storage_quota", "storage_access"),
        *("worker_lost", "cancelled", "unknown"),
    }
)
"""The classes of errors that a step may end with."""
STEP_CODES = frozenset(
    {
        "REFERENCE_NOT_AVAILABLE",
        "accumulate_type",
        "action_not_here",
        "admission_timeout",
        "answer_invalid",
        "aws_failed",
        "aws_not_configured",
        "aws_refused",
        "aws_rejected",
        "aws_throttled",
        "aws_unreachable",
        "budget_exceeded",
        "cache_ttl",
        "call_params",
        "cancelled",
        "capability_invalid",
        "case_fail",
        "command_refused",
        "conflict",
        "containers_unavailable",
        "credential_invalid",
        "credential_not_found",
        "credential_not_named",
        "credential_refused",
        "credential_unreadable",
        "credentials_away",
        "dependency_missing",
        "endless_cycle",
        "execution_timeout",
        "failed_by_rule",
        "gcs_failed",
        "gcs_refused",
        "gone",
        "infrastructure",
        "internal",
        "invalid_credential",
        "invalid_input",
        "invalid_playbook",
        "invalid_ttl",
        "join_unsatisfied",
        "jump_target",
        "key_unknown",
        "keychain_unresolved",
        "kind_params",
        "kind_unavailable",
        "loop_closing",
        "loop_not_available",
        "machine_state",
        "negative_cost",
        "nesting_limit",
        "next_args",
        "no_next",
        "no_result_store",
        "not_a_reference",
        "not_found",
        "object_format",
        "output_path",
        "overloaded",
        "patch_conflict",
        "patch_type",
        "pool_unknown",
        "result_corrupt",
        "result_exists",
        "result_not_a_value",
        "result_not_json",
        "result_store_failed",
        "result_store_full",
        "result_too_large",
        "result_too_large_to_load",
        "retry_exhausted",
        "retry_params",
        "sealed_invalid",
        "secret_invalid",
        "secret_missing",
        "server_unreachable",
        "size_limit",
        "step_deadline",
        "step_timeout",
        "task_failed",
        "task_input",
        "task_timeout",
        "template_error",
        "template_limit",
        "template_syntax",
        "template_type",
        "timeout",
        "token_refused",
        "undefined",
        "unknown_kind",
        "unknown_step",
        "unknown_task",
        "unstorable_text",
        "worker_lost",
    }
)
"""The codes of errors that a step of any kind may end with."""
NO_ENDS = {
    **dict.fromkeys(("success", "succeeded", "ok", "complete", "completed", "finished"), "done"),
    **dict.fromkeys(("fail", "failure", "error", "errors"), "failed"),
    "loop_done": "loop.done",
    "http_4xx": "client_error",
    "http_5xx": "server_error",
}
"""Words that no error has as its code, with what is meant by them."""
_MADE = re.compile(r"(?:\((?P<when>.*)\) if )?(?P<on>\(event\.name .*\))(?: else false)?\Z", re.DOTALL)
_QUOTED = re.compile(r"'([^']*)'")


def condition(words: Sequence[str]) -> str:
    """Return the condition that is true at these ends of a step.

    The brackets around it are how ``shown`` knows it from a guard that an author wrote.
    """
    events = [EVENTS[word] for word in EVENTS if word in words]
    codes = [word for word in dict.fromkeys(words) if word not in EVENTS]
    parts: list[str] = []
    if events:
        parts.append(f"event.name {_one_of(events)}")
    if codes:
        kinds = [word for word in codes if word in ERROR_KINDS]
        error = f"output.error.code {_one_of(codes)}"
        if kinds:
            error = f"({error} or output.error.kind {_one_of(kinds)})"
        parts.append(f"event.name == 'step.failed' and {error}")
    return f"({' or '.join(parts)})"


def _one_of(words: Sequence[str]) -> str:
    shown = [f"'{word}'" for word in words]
    return f"== {shown[0]}" if len(shown) == 1 else f"in [{', '.join(shown)}]"


def shown(source: str) -> str:
    """Return a guard for people: ``on`` and ``when`` where it was made of them."""
    ends, when = parts(source)
    return source if not ends else f"on {', '.join(ends)}" + (f", when {when}" if when is not None else "")


def parts(source: str) -> tuple[list[str], str | None]:
    """Return the words of ``on`` and the text of ``when`` that a guard was made of.

    There are no words in a guard of an author.
    """
    found = _MADE.match(source)
    if found is None:
        return [], source
    when, on = found["when"], found["on"]
    words = dict.fromkeys(
        next((word for word, event in EVENTS.items() if event == text), text) for text in _QUOTED.findall(on)
    )
    for ends in (list(words), [word for word in words if word != "failed"]):
        made = condition(ends) if ends else ""
        if source == (f"({when}) if {made} else false" if when is not None else made):
            return ends, when
    return [], source
