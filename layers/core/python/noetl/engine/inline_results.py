"""Results of steps of control kinds: whether history may hold them inline.

It may while the result is small and the playbook asks for nothing else. A result that belongs in the result store is put there by a worker,
which knows tiers, compression and lifetimes: such a step is issued to a worker. Nothing has happened by then, since control kinds only say
what is to happen.
"""

from __future__ import annotations

from noetl.domain import codec
from noetl.domain.outcomes.outcomes import Outcome
from noetl.dsl.program import Step


def travels(outcome: Outcome, step: Step, inline_bytes: int) -> bool:
    """Return whether history may hold an outcome as it is.

    ``inline_bytes``: the bound for tasks that ask for no smaller one.
    """
    body = step.body
    tasks = body.tasks if body is not None else ()
    specs = [spec for spec in (step.result, *(task.result for task in tasks)) if spec is not None]
    if any(spec.scope == "permanent" for spec in specs):
        return False
    limit = min((inline_bytes, *(w.inline_max_bytes for w in specs if w.inline_max_bytes is not None)))
    labels = {name: value for name, value in outcome.labels.items() if value is not outcome.result}
    machine = outcome.suspend.machine if outcome.suspend is not None else None
    patched = [patch.value for patch in outcome.patches]
    return len(codec.encode([outcome.result, labels, machine, patched])) <= limit
