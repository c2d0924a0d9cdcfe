"""Settings of ``executor`` that choose machines.

They are ``requires``, ``pool``, and policies of another runtime.
"""

from __future__ import annotations

from noetl.dsl.model.document import ExecutorSpec
from noetl.formatting.nodes import Map, map_of
from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule

_EXECUTOR = frozenset({"kind", "profile", "version", "spec"})
_SPEC = frozenset(ExecutorSpec.model_fields)
_POLICY = frozenset({"lifecycle", "failure", "on_unmatched"})


def apply(page: Page) -> None:
    """Remove what chooses a place to run.

    The kind of a tool chooses it, and a run reports what is missing there.
    """
    executor = map_of(page.root.get("executor"))
    spec = map_of(executor.get("spec"))
    policy = map_of(spec.get("policy"))
    for owner, known, within in (
        (policy, _POLICY, "executor.spec.policy"),
        (spec, _SPEC, "executor.spec"),
        (executor, _EXECUTOR, "executor"),
    ):
        for entry in list(owner.entries):
            if entry.key not in known:
                remove(owner, entry)
                page.note(
                    entry,
                    f"`{within}.{entry.key}` is left out: it has no effect on what the playbook does here",
                    safe=True,
                )
    for owner, name in ((spec, "policy"), (executor, "spec"), (page.root, "executor")):
        block = owner.entry(name)
        if block is not None and isinstance(block.value, Map) and not block.value.entries:
            remove(owner, block)


RULE = Rule("executor-settings", "The kind of a tool decides where it runs.", apply)
