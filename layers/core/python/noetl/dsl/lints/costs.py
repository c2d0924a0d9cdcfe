"""Writes of ``ctx.cost`` that may lower what a budget bounds."""

from __future__ import annotations

from noetl.domain.patches.cost import COST
from noetl.dsl.lints.flow import set_actions
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.program import Program


def check_costs(lowering: Lowering, program: Program) -> None:
    """Warn of each write that replaces the cost, where a budget bounds it."""
    if program.budget is None or program.budget.cost is None:
        return
    for step in program.steps:
        for action in set_actions(step):
            if action.scope == "ctx" and action.name == COST and action.op not in ("add", "max"):
                lowering.diagnostics.warning(
                    "cost-replaced",
                    f"ctx.{COST} is what the budget bounds, and this write replaces what was spent before",
                    action.pos,
                    hint=f"add to it: ctx.{COST}: {{ add: … }}",
                )
