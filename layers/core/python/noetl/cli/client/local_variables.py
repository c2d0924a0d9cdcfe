"""Variables of an execution on this machine, as commands show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.domain.errors import NotFoundError
from noetl.domain.text.timestamps import rfc3339
from noetl.domain.variables import Variable

if TYPE_CHECKING:
    from noetl.api.http.bodies import VariableView


def no_variable(execution_id: int, name: str) -> NotFoundError:
    """Return the error for a variable that does not exist."""
    return NotFoundError(
        f"execution {execution_id} has no variable {name[:80]!r}",
        code="variable_not_found",
        hint=f"`noetl vars list {execution_id}` shows them",
    )


def variable_view(variable: Variable) -> VariableView:
    """A row as commands show it."""
    from noetl.api.http.bodies import VariableView

    return VariableView(
        variable.value,
        variable.type,
        variable.source_step,
        rfc3339(variable.created_at),
        rfc3339(variable.accessed_at),
        variable.access_count,
    )
