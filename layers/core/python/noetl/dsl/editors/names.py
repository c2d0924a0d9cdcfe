"""The names that a playbook declares, for completion while it is written."""

from __future__ import annotations

from noetl.domain.kinds import KindLookup
from noetl.domain.text.version_text import split_version
from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.editors.result_fields import result_fields
from noetl.dsl.editors.shapes import PlaybookNames, StepNames
from noetl.dsl.lowering import lower
from noetl.dsl.lowering.agents import with_agents
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.program import Program
from noetl.dsl.refusals import refuse_other_documents
from noetl.dsl.shape import refuse_excess
from noetl.dsl.yaml_text.loader import load
from noetl.dsl.yaml_text.tree import items_of


def names_of(text: str, kinds: KindLookup) -> PlaybookNames | None:
    """Return the names of a playbook, which may have errors; None for another text.

    What has the wrong shape is passed over.
    """
    ignored = Diagnostics()
    root = load(split_version(text)[0], ignored)
    if root is None:
        return None
    refuse_excess(root, ignored)
    refuse_other_documents(root, ignored)
    if ignored.has_errors() or not items_of(root.get("workflow")):
        return None
    lowering = Lowering(kinds, ignored)
    program = lower(lowering, with_agents(lowering, root), source_name="")
    return _of(lowering, program)


def _of(lowering: Lowering, program: Program) -> PlaybookNames:
    names = lowering.names
    aliases = {step: alias for alias, (step, _) in names.aliases.items()}
    last = frozenset(program.last_steps)
    fields = {step.name: result_fields(step, lowering.kinds) for step in program.steps}
    steps = [
        StepNames(
            step,
            aliases.get(step),
            names.iterators.get(step),
            sorted(names.arguments(step)),
            sorted(names.labels.get(step, ())),
            sorted(names.iter.get(step, ())),
            fields.get(step, []),
        )
        for step in names.steps
        if step and step not in last
    ]
    return PlaybookNames(
        sorted(names.workload),
        sorted(names.ctx),
        sorted(names.vars),
        sorted(name for name in names.keychain if name),
        sorted(lowering.workbook),
        steps,
    )
