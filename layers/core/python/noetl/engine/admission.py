"""Admission of an execution (``executor.spec.concurrency``) before its Start is decided.

History contains nothing of it, since it comes before the Start.
"""

from __future__ import annotations

from noetl.domain.events import Start
from noetl.domain.limits import EXECUTIONS, Admission
from noetl.domain.state import ExecutionState
from noetl.dsl.program import LiteralNode, Program
from noetl.engine.decision import Decider
from noetl.engine.handle_event import workload_of
from noetl.engine.limits import key_of, priority_of, start_scope, wrong
from noetl.engine.scopes.slot_view import SCOPES, View, no_hydration
from noetl.templating.contract import Hydrate


def admission_of(
    program: Program, event: Start, now: float, hydrate: Hydrate = no_hydration
) -> Admission | None:
    """Compute which limits the start of an execution needs; None when nothing bounds it.

    ``hydrate``: loads large values of the payload. Raises TemplateError for what is no key or no number, and TaskError for a value that is
    not available.
    """
    wanted = program.concurrency
    if wanted is None:
        return None
    d = Decider(program, ExecutionState(), event, now, View(scopes=SCOPES, hydrate=hydrate))
    workload = workload_of(d, event)
    scope = start_scope(d, workload)
    key = key_of(d, wanted.key or LiteralNode(program.path), scope, "the key of executor.spec.concurrency")
    if not key:
        return None
    limit = d.number(wanted.limit, scope, "executor.spec.concurrency.limit")
    if limit < 1:
        problem = f"executor.spec.concurrency.limit is {limit:g}"
        raise wrong(wanted.limit, wanted.pos, problem, "it has to be at least 1")
    return Admission(EXECUTIONS + key, int(limit), wanted.on_excess, priority_of(d, event, workload))
