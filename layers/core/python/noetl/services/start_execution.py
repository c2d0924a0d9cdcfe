"""Start an execution: check the payload, then one commit makes the execution, its first facts and its first commands."""

from __future__ import annotations

from typing import Any

from noetl.domain import ids
from noetl.domain.errors import InvalidInputError
from noetl.domain.events import Start
from noetl.dsl.program import Program


def start_event(
    program: Program, payload: dict[str, Any], *, now_ms: int, random_bits: int, principal: str = ""
) -> Start:
    """The event that starts ``program``; hand it to ``handle_events``, and the execution exists when that returns.

    ``now_ms`` and ``random_bits`` make the execution id. Raises InvalidInputError(code="payload_invalid") when the payload does not fit
    the playbook's ``input`` schema.
    """
    check_payload(program, payload)
    return Start(
        ids.execution_id(now_ms, random_bits),
        ids.start_event(),
        program.hash,
        program.path,
        payload=payload,
        principal=principal,
    )


def check_payload(program: Program, payload: Any) -> None:
    """Hold a payload against the playbook's ``input`` schema (JSON Schema), if it has one."""
    if not isinstance(payload, dict):
        raise InvalidInputError("the payload has to be a mapping", code="payload_invalid")
    if program.input_schema is None:
        return
    import jsonschema

    validator = jsonschema.validators.validator_for(program.input_schema)(program.input_schema)
    problems = sorted(validator.iter_errors(payload), key=lambda found: list(found.absolute_path))
    if problems:
        first = problems[0]
        where = "/".join(str(part) for part in first.absolute_path) or "payload"
        raise InvalidInputError(
            f"{where}: {first.message}",
            code="payload_invalid",
            hint=f"the playbook {program.name} declares its input",
            details={"problems": [found.message for found in problems[:10]]},
        )
