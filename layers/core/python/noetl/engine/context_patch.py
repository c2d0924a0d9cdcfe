"""Patches of the context by clients, applied when the engine gets them."""

from __future__ import annotations

from typing import Any

from noetl.domain.errors import InvalidInputError, TaskError
from noetl.domain.events import ContextPatched
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.patches.json_patch import merge_patch, patch_document, read_roots, roots
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.results.references import is_ref
from noetl.domain.sizes.gate import check_text, check_tree
from noetl.domain.sizes.table import IDENTIFIER
from noetl.engine.decision import Decider
from noetl.engine.outcomes import superseded
from noetl.engine.routing import patch_context


def resolve(d: Decider, event: ContextPatched) -> list[Patch]:
    """Compute the changes of ``event``: its patches, merge and operations, all or none.

    Raises InvalidInputError(code="patch_conflict") for operations that do not fit the context as it is, and code="size_limit" for a context
    that would be nested too deeply; TaskError when the value of a name is needed, and is a large result that is not available.
    """
    names = [*event.merge, *roots(event.operations)]
    inside = {name for name, value in event.merge.items() if isinstance(value, dict)}
    inside |= read_roots(event.operations)
    before = {name: value for name in names if (value := _current(d, name, name in inside)) is not MISSING}
    after = merge_patch(before, event.merge)
    if event.operations:
        after = patch_document(after, event.operations)
        check_tree(after, "ctx")
    changed = {
        name: value for name, value in after.items() if name not in before or value is not before[name]
    }
    kept = d.keep(changed, "ctx") if changed else {}
    gone = [Patch("ctx", name, None, "unset") for name in before if name not in after]
    return [*event.patches, *(Patch("ctx", name, value) for name, value in kept.items()), *gone]


def _current(d: Decider, name: str, inside: bool) -> Any:
    """Return the context's value of ``name``; ``inside``: load the value of a reference."""
    value = d.slots.get(("ctx", name), MISSING)
    return d.view.load(value) if inside and is_ref(value) else value


def context_patched(d: Decider, event: ContextPatched) -> None:
    """Apply a client's patch; one that does not fit changes nothing, and the record shows why."""
    try:
        check_text(IDENTIFIER, event.source_step, "source_step")
        patch_context(
            d,
            resolve(d, event),
            principal=event.principal,
            reason=event.reason,
            correlation_id=event.correlation_id,
            var_type=event.var_type,
            source_step=event.source_step,
        )
    except (InvalidInputError, TaskError) as error:
        if error.retryable:
            raise
        superseded(d, event.event_id, status=error.message)
