"""Checks of the JSON Schema of a playbook's ``input`` or of a callback.

A check says whether the schema is valid, and what of a value does not fit it.

Nothing is ever fetched: a ``$ref`` leads to a place of the same schema. A check takes a bounded number of operations, and its patterns
take time in proportion to the text.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from noetl.domain.errors import InvalidInputError, OverloadedError
from noetl.domain.sizes.gate import find_too_deep
from noetl.domain.sizes.table import SCHEMA_DEPTH, SCHEMA_NESTING, SCHEMA_OPERATIONS, Size
from noetl.domain.text.excerpt import excerpt
from noetl.dsl.json_schema.effort import Effort, EffortExceededError, NestingExceededError
from noetl.dsl.json_schema.structure import SchemaProblem, find_problem, lookup_cost

MOST = 10
"""Most problems of one payload that a message lists."""
_FOUND = 1000
"""Problems after which the check stops; the message lists the first ones by place."""
_LONGEST = 300
"""Characters of one problem: its message quotes what was given, which may be large."""


def misfits(schema: dict[str, Any], payload: Any) -> list[str]:
    """List what does not fit as ``place: message``, by place, at most ``MOST``.

    Raises InvalidInputError: ``input_schema`` when the schema cannot be used, ``schema_limit`` when the check takes too many operations;
    OverloadedError when it takes long, and too many others do.
    """
    from noetl.dsl.json_schema.keywords import counting

    try:
        with counting(Effort(lookup_cost(schema))):
            found = list(islice(_validator(schema).iter_errors(payload), _FOUND))
        found.sort(key=lambda one: list(map(str, one.absolute_path)))
    except OverloadedError:
        raise
    except EffortExceededError:
        raise InvalidInputError(
            f"what was sent takes more than {SCHEMA_OPERATIONS.value} operations to hold against the schema",
            code="schema_limit",
            hint="send less at once, or simplify the schema: fewer `anyOf` and `oneOf`, shorter patterns",
            details=_details(SCHEMA_OPERATIONS),
        ) from None
    except (NestingExceededError, RecursionError):
        raise InvalidInputError(
            f"what was sent is nested too deep: the schema would apply more than {SCHEMA_NESTING.value} keywords inside each other",
            code="schema_limit",
            hint="nest lists and mappings less deeply, or simplify the schema: a `$dynamicRef` that leads back to itself never ends",
            details=_details(SCHEMA_NESTING),
        ) from None
    except Exception as error:  # a schema that is none fails in the library in many ways
        problem = schema_problem(schema)
        reason = show_problem(problem) if problem else f"it cannot be used: {type(error).__name__}"
    else:
        return [_problem_line(one.absolute_path, one.message) for one in found[:MOST]]
    raise InvalidInputError(
        f"`input` of the playbook is no valid schema for payloads: {reason}",
        code="input_schema",
        hint="correct the playbook, and register it again",
    )


def schema_problem(schema: dict[str, Any]) -> SchemaProblem | None:
    """Why this is no usable JSON Schema; None when it is one."""
    from noetl.dsl.json_schema.keywords import counted, counting

    deep = find_too_deep(schema, SCHEMA_DEPTH)
    if deep is not None:
        return SchemaProblem(
            deep,
            f"it is nested more than {SCHEMA_DEPTH.value} levels deep",
            f"put inner schemas below `$defs`, and refer to them with `$ref` (limit `{SCHEMA_DEPTH.name}` of docs/limits.md)",
        )
    dialect = _dialect(schema)
    try:
        with counting(Effort()):
            wrong = next(counted(dialect)(dialect.META_SCHEMA, registry=_empty()).iter_errors(schema), None)
        if wrong is not None:
            return SchemaProblem(tuple(wrong.absolute_path), excerpt(wrong.message, _LONGEST))
        return find_problem(schema)
    except EffortExceededError:
        return SchemaProblem((), "it is too large to be looked through")
    except (NestingExceededError, RecursionError):
        return SchemaProblem((), "it is nested too deep")


def show_problem(problem: SchemaProblem) -> str:
    """Show a problem as ``place: message``, with the remedy."""
    line = _problem_line(problem.path, problem.message, "input")
    return f"{line} ({problem.hint})" if problem.hint else line


def _details(size: Size) -> dict[str, Any]:
    return {"limit": size.name, "most": size.value}


def _dialect(schema: dict[str, Any]) -> Any:
    import jsonschema

    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)


def _validator(schema: dict[str, Any]) -> Any:
    from noetl.dsl.json_schema.keywords import counted

    return counted(_dialect(schema))(schema, registry=_empty())


def _empty() -> Any:
    from referencing.jsonschema import EMPTY_REGISTRY

    return EMPTY_REGISTRY


def _problem_line(path: Any, message: Any, root: str = "payload") -> str:
    return f"{'/'.join(str(part) for part in path) or root}: {excerpt(str(message), _LONGEST)}"
