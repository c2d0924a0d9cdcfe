"""Lints: correct text that still cannot do what it says. One module per family.

``guards``: guards that never decide; ``flow``: routes, waits and races; ``names``: names that hold nothing where they are read.
``statuses``: arcs on the status of a call that has failed;
``rows``: code that tests a result for a list; ``escapes``: values whose quotes are doubled before SQL binds them;
``costs``: writes that refill a budget; ``gathered``: results of items that are those of all.
``deprecated`` and ``unused`` are asked for by ``noetl validate --strict`` only.
"""

from __future__ import annotations

from noetl.dsl.lints.costs import check_costs
from noetl.dsl.lints.deprecated import check_deprecated
from noetl.dsl.lints.escapes import check_escapes
from noetl.dsl.lints.flow import check_flow
from noetl.dsl.lints.gathered import check_gathered
from noetl.dsl.lints.guards import check_guards
from noetl.dsl.lints.inputs import check_inputs
from noetl.dsl.lints.names import check_known_names
from noetl.dsl.lints.rows import check_rows
from noetl.dsl.lints.statuses import check_statuses
from noetl.dsl.lints.unused import check_unused
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.program import Program
from noetl.dsl.yaml_text.tree import Mapping


def check_lints(lowering: Lowering, program: Program, root: Mapping) -> None:
    """Add every lint to ``lowering.diagnostics``.

    ``lowering.strict`` asks for those of older spellings and unused names too.
    """
    check_guards(lowering, program)
    check_statuses(lowering, program)
    check_flow(lowering, program, root)
    check_known_names(lowering, program)
    check_rows(lowering, program)
    check_inputs(lowering, program)
    check_escapes(lowering, program)
    check_costs(lowering, program)
    check_gathered(lowering, program)
    if lowering.strict:
        check_deprecated(lowering, root)
        check_unused(lowering, root)
