"""Libraries of ``executor.spec.requirements``, and the lock shipped with the version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain.sizes.table import LOCK_BYTES, LOCK_PINS
from noetl.domain.text.lock_text import LOCK, LockError, Requirement, misfit, read_lock, read_requirement
from noetl.domain.text.version_text import UNREADABLE
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.yaml_text.tree import Scalar, Tree, items_of, text_of

_REMEDY = "`noetl lock PLAYBOOK` writes the lock beside the playbook (docs/modules.md)"


def lower_requirements(lowering: Lowering, tree: Tree | None, files: Mapping[str, Any] | None) -> str:
    """Return the text of the lock; empty for a playbook without requirements.

    ``files``: what is shipped behind the playbook; None: nothing is, and nothing is missed.
    """
    required: dict[str, Requirement] = {}
    sound = True
    for item in items_of(tree):
        if not isinstance(item, Scalar):
            continue
        text = text_of(item) or ""
        found = read_requirement(text)
        if found is None:
            problem, hint = f"{text[:80]!r} is not the requirement of a package", "such as pandas==2.2.*"
        elif found.name in required:
            problem, hint = f"{found.name} is required twice", "remove one of them"
        else:
            required[found.name] = found
            continue
        sound = False
        lowering.diagnostics.error("requirement", problem, item.pos, hint=hint)
    if not required or not sound or files is None or tree is None:
        return ""
    shipped = files.get(LOCK)
    refused = _refused(shipped, tuple(required.values()))
    if refused is None:
        return str(shipped)
    code, message = refused
    lowering.diagnostics.error(code, message, tree.pos, hint=_REMEDY)
    return ""


def _refused(text: Any, required: tuple[Requirement, ...]) -> tuple[str, str] | None:
    """Return (code, message) of a lock that cannot be used."""
    if isinstance(text, Mapping) and text.get(UNREADABLE):
        return "lock-missing", f"the lock of these requirements cannot be read: {text[UNREADABLE]}"
    if not isinstance(text, str):
        return "lock-missing", "these requirements have no lock beside the playbook"
    if len(text.encode()) > LOCK_BYTES.value:
        return "lock-invalid", f"the lock has more than {LOCK_BYTES.value} bytes"
    try:
        lock = read_lock(text)
    except LockError as error:
        return "lock-invalid", f"the lock cannot be used: {error}"
    if len(lock.pins) > LOCK_PINS.value:
        return (
            "lock-invalid",
            f"the lock pins {len(lock.pins)} packages; at most {LOCK_PINS.value} are installed",
        )
    reason = misfit(required, lock)
    return ("lock-misfit", f"the lock does not fit these requirements: {reason}") if reason else None
