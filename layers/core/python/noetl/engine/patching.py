"""What a patch from outside does to the context that is there when it is applied."""

from __future__ import annotations

from typing import Any

from noetl.domain.events import ContextPatched
from noetl.domain.json_patch import merge_patch, patch_document, roots
from noetl.domain.outcomes import Patch
from noetl.domain.patches import MISSING
from noetl.domain.results import is_ref
from noetl.engine.decision import Decider


def resolve(d: Decider, event: ContextPatched) -> list[Patch]:
    """The changes that ``event`` stands for: its patches, then its merge, then its operations (all of them, or none).

    Raises InvalidInputError(code="patch_conflict") for operations that do not fit what is there.
    """
    names = [*event.merge, *roots(event.operations)]
    before = {name: value for name in names if (value := _current(d, name)) is not MISSING}
    after = merge_patch(before, event.merge)
    if event.operations:
        after = patch_document(after, event.operations)
    changed = {
        name: value for name, value in after.items() if name not in before or value is not before[name]
    }
    kept = d.keep(changed, "ctx") if changed else {}
    gone = [Patch("ctx", name, None, "unset") for name in before if name not in after]
    return [*event.patches, *(Patch("ctx", name, value) for name, value in kept.items()), *gone]


def _current(d: Decider, name: str) -> Any:
    value = d.slots.get(("ctx", name), MISSING)
    return d.view.load(value) if is_ref(value) else value
