"""What a stage of a step is like, as far as the program shows it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from noetl.caching.lru_cache import LruCache
from noetl.domain.commands import Command
from noetl.dsl.program import Expr, Pipeline, Program, Sql, Text, tasks_in

KEPT = 1024
WORK = ("(", "|", "{%")
"""What templates have that do more than take values and compare them: calls, filters and statements."""


class StageTraits(NamedTuple):
    """What is known of a stage before it runs.

    ``unseen``: others see nothing of its run but its calls: it has no sink, cache, callback or secrets. ``light``: its templates take values
    and compare them, which takes no time.
    """

    unseen: bool
    light: bool


Place = tuple[str, str, str, int]

_KNOWN: LruCache[Place, StageTraits] = LruCache(KEPT)


def place_of(command: Command) -> Place:
    """Return the stage of a step that a command runs."""
    return command.program, command.step, command.stage, command.rule


def stage_traits(command: Command, program: Program, pipeline: Pipeline) -> StageTraits:
    """Return the traits of a command's stage, which are looked for once.

    Items, and what continues a turn before, are seen in any case.
    """
    if command.loop is not None or command.machine is not None:
        return StageTraits(unseen=False, light=False)
    place = place_of(command)
    found = _KNOWN.get(place)
    if found is None:
        tasks = tasks_in((pipeline.tasks, pipeline.sinks))
        kept = any(task.cache is not None or task.sinks for task in tasks)
        unseen = not (program.keychain or pipeline.calls_back or pipeline.sinks or kept)
        found = StageTraits(unseen, unseen and _is_light(pipeline))
        _KNOWN.put(place, found)
    return found


def _is_light(part: Any) -> bool:
    if isinstance(part, (Expr, Text, Sql)):
        return not any(work in part.source for work in WORK)
    if isinstance(part, (tuple, list)):
        return all(map(_is_light, part))
    if isinstance(part, msgspec.Struct):
        return all(_is_light(getattr(part, name)) for name in part.__struct_fields__)
    return True
