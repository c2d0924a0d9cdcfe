"""``cache`` of a step or a task: how long a call takes the result of an earlier one."""

from __future__ import annotations

import msgspec

from noetl.dsl.lowering.context import Frame, Lowering
from noetl.dsl.program import CacheSpec, LiteralNode, Task
from noetl.dsl.reads import reads_any_name, unset_parameters
from noetl.dsl.yaml_text.tree import Mapping, Scalar, Tree

LONGEST = 30 * 86_400.0
"""Seconds that a result is taken again, at most."""
WRONG_TTL = "a cached result is taken again for at least 1s and at most 30d"


def wants_no_cache(tree: Tree | None) -> bool:
    """Report whether ``cache`` is missing, null, or false."""
    return tree is None or (isinstance(tree, Scalar) and (tree.value is None or tree.value is False))


def lower_cache(lowering: Lowering, tree: Tree | None, frame: Frame) -> CacheSpec | None:
    """Lower ``cache``: a mapping of ``ttl`` and ``key``, or the time alone.

    ``frame``: that of the task's parameters.
    """
    if tree is None or wants_no_cache(tree):
        return None
    ttl, key = (tree.get("ttl"), tree.get("key")) if isinstance(tree, Mapping) else (tree, None)
    seconds = lowering.seconds(ttl, frame)
    if ttl is None or seconds is None:
        return None
    if (
        isinstance(seconds, LiteralNode)
        and isinstance(seconds.value, (int, float))
        and seconds.value > LONGEST
    ):
        lowering.diagnostics.error(
            "out-of-range",
            WRONG_TTL,
            ttl.pos,
            hint="write ttl: 30d, or less; a table keeps results for longer",
        )
    return CacheSpec(seconds, lowering.optional(key, frame), pos=tree.pos)


def with_names(lowering: Lowering, task: Task) -> Task:
    """Add to the default key of a task what its code reads besides its input.

    Code that may read any name of the playbook has no default key: two calls could differ in what no key holds.
    """
    cache = task.cache
    if cache is None or cache.key is not None:
        return task
    if reads_any_name(task):
        lowering.diagnostics.error(
            "cache-needs-key",
            "what the code reads is known at run time alone, so the cache has no key of its own",
            cache.pos,
            hint="name what the result depends on: cache: { ttl: 1h, key: ... }",
        )
    if not (names := {name for name in unset_parameters(task) if not name.endswith(".*")}):
        return task
    return msgspec.structs.replace(task, cache=msgspec.structs.replace(cache, names=tuple(sorted(names))))


def refuse_cache(lowering: Lowering, body: Mapping, kind: str) -> None:
    """Report a ``cache`` of a task whose kind returns nothing that it made itself."""
    if wants_no_cache(body.get("cache")):
        return
    lowering.diagnostics.error(
        "cache-not-possible",
        f"a task of kind `{kind}` has no result of its own that could be taken again",
        body.key_pos("cache"),
        hint="give `cache` to the tasks that do the work: those of the sub-playbook, or of the loop",
    )
