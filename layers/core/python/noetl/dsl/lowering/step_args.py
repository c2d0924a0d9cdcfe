"""A step's own ``args``: what the engine evaluates once, and what reaches its tasks.

Since meaning 3 a task without an input of its own, or with an empty one, gets the step's ``args`` as its input. Entries that read the
iteration or the keychain are part of each task's input: they are evaluated for each call, and nothing keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from noetl.dsl.expressions import Analysis, analyse, has_template
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.lowering.pipelines import unlabel
from noetl.dsl.lowering.tasks import INPUT_KEYS
from noetl.dsl.template_rules import TemplateProblem
from noetl.dsl.yaml_text.tree import Key, Mapping, Sequence, Tree, made_text, mapping_of

_OF_AN_ITERATION = frozenset({"iter", "loop", "loop_index", "_index"})


@dataclass(frozen=True, slots=True)
class StepArgs:
    """The divided ``args`` of a step.

    ``once``: what the engine evaluates. ``each``: entries of every task's input. ``whole``: the input of a task that has none.
    """

    once: Tree | None
    each: Mapping | None = None
    whole: Mapping | None = None


def split_args(lowering: Lowering, given: Tree | None, tool: Tree | None, iterator: str | None) -> StepArgs:
    """Divide a step's ``args``. ``iterator``: the name of the loop's element, if any."""
    if lowering.semantics < 3 or given is None or tool is None:
        return StepArgs(given)
    if not isinstance(given, Mapping):
        everything = made_text("{{ args }}", given.pos)
        return StepArgs(given, whole=Mapping({"": (Key("", given.pos), everything)}, given.pos))
    names = frozenset({"keychain", *lowering.names.keychain})
    names |= _OF_AN_ITERATION | {iterator} if iterator is not None else frozenset()
    once, each, whole = {}, {}, {}
    for key, value in given.items():
        if any(analysis.names & names for analysis in _analyses(value)):
            each[key.text] = whole[key.text] = (key, value)
        else:
            once[key.text] = (key, value)
            whole[key.text] = (key, made_text(f"{{{{ args[{key.text!r}] }}}}", value.pos))
    if not each:
        return StepArgs(given, whole=Mapping(whole, given.pos))
    if any(_needs(task, frozenset(each)) for task in _tasks(tool)):
        return StepArgs(given)
    left = Mapping(once, given.pos) if once else None
    return StepArgs(left, Mapping(each, given.pos), Mapping(whole, given.pos))


def _tasks(tool: Tree) -> list[Mapping]:
    items = tool.items if isinstance(tool, Sequence) else [tool]
    return [unlabel(mapping_of(item), 0)[1] for item in items]


def _needs(task: Mapping, each: frozenset[str]) -> bool:
    """Report whether a task's own input reads arguments that would be part of it.

    An input cannot read itself.
    """
    own = task.get(*INPUT_KEYS)
    if own is None:
        return False
    read = each | {"args", "input"}
    return not isinstance(own, Mapping) or any(found.names & read for found in _analyses(own))


def _analyses(tree: Tree) -> Iterator[Analysis]:
    if isinstance(tree, Mapping):
        for _, value in tree.items():
            yield from _analyses(value)
    elif isinstance(tree, Sequence):
        for item in tree.items:
            yield from _analyses(item)
    elif isinstance(tree.value, str) and has_template(tree.value):
        with suppress(TemplateProblem):  # reported where the value is lowered
            yield analyse(tree.value)


def with_args(task: Mapping, args: StepArgs) -> Mapping:
    """Add the step's ``args`` to a task.

    A task without an input, or with an empty one, receives all of them, any other task those that belong to each call.
    """
    own = task.get(*INPUT_KEYS)
    empty = own is None or (isinstance(own, Mapping) and not own.entries)
    if empty and args.whole is not None:
        whole = args.whole.get("") or args.whole
        rest = {name: entry for name, entry in task.entries.items() if own is None or entry[1] is not own}
        return Mapping({**rest, "args": (Key("args", args.whole.pos), whole)}, task.pos)
    if args.each is None or not isinstance(own, Mapping):
        return task
    name = next(name for name in INPUT_KEYS if task.get(name) is own)
    merged = Mapping({**args.each.entries, **own.entries}, own.pos)
    return Mapping({**task.entries, name: (task.entries[name][0], merged)}, task.pos)
