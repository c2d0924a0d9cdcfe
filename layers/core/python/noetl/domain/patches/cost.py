"""The cost of an execution: what its tasks add to ``ctx.cost`` under a budget."""

from __future__ import annotations

from noetl.domain.errors import InvalidInputError
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.text.number_text import number_text

COST = "cost"
"""The name in the context that tasks add their cost to."""


def is_cost(patch: Patch) -> bool:
    return patch.scope == "ctx" and patch.name == COST


def check_cost(patch: Patch) -> None:
    """Refuse to add less than nothing to the cost: that would refill the budget.

    Raises InvalidInputError(code="negative_cost").
    """
    if is_cost(patch) and patch.op == "add" and isinstance(patch.value, (int, float)) and patch.value < 0:
        raise InvalidInputError(
            f"ctx.cost: {number_text(patch.value)} cannot be added, "
            "because it would refill the budget of the execution",
            code="negative_cost",
            hint="add 0 or more, such as {{ [0, output.body.price] | max }}",
        )
