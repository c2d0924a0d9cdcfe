"""Choice of the worker for a command: the one that runs all its kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.domain.commands import Command
from noetl.domain.errors import InvalidInputError
from noetl.dsl.program import Pipeline, Program, RunAction, SinkAction, Task, tasks_in
from noetl.pipeline import stage_pipeline

MIXED = "mixed"
"""The worker for pipelines whose kinds belong to several workers; it reads what loops go over, too: it reaches what all of them reach."""
LONG = "long"
"""The worker without an end, for pipelines with a task that says so (``spec.long``); where there is none, they go where they went."""
PLAIN = "noop"
"""The kind whose worker takes what has no task to run."""


def worker_of(command: Command, program: Program, workers: Mapping[str, str]) -> str:
    """Return the name of the worker that runs ``command``.

    ``workers``: kind → worker, and ``long`` → that of long tasks. A kind that none is named for (of a package that the deployment does not
    know) goes to ``mixed``, which answers that there is no such kind.

    Raises InvalidInputError(code="no_worker") when there is no worker at all."""
    if not workers:
        raise InvalidInputError("no worker is deployed", code="no_worker")
    if command.stage == "collection":
        return MIXED
    try:
        pipeline = stage_pipeline(program.step(command.step), command)
        kinds = kinds_of(pipeline)
        if LONG in workers and any(task.long for task in tasks_in((pipeline.tasks, pipeline.sinks))):
            return workers[LONG]
    except LookupError:
        kinds = frozenset()
    found = {workers.get(kind, MIXED) for kind in kinds or (PLAIN,)}
    return found.pop() if len(found) == 1 else MIXED


def kinds_of(pipeline: Pipeline) -> frozenset[str]:
    """Return the tool kinds that running ``pipeline`` may call.

    They include those of sinks, rules, nested loops and computed workbook calls.
    """
    tasks = (*pipeline.tasks, *(sink.task for sink in pipeline.sinks))
    return frozenset(kind for task in tasks for kind in _kinds(task))


def _kinds(task: Task) -> Iterator[str]:
    inside = [sink.task for sink in task.sinks]
    for rule in task.rules:
        for action in rule.actions:
            inside += action.tasks if isinstance(action, RunAction) else ()
            inside += [action.task] if isinstance(action, SinkAction) else ()
    if task.nested is not None:
        inside += task.nested.tasks
    elif task.choices:
        inside += [choice for _, choice in task.choices]
    else:
        yield task.kind
    for other in inside:
        yield from _kinds(other)
