"""How a step meets other steps' runs: ``join``, ``cancels`` and ``mutex``.

It waits for them (``join``), calls them off (``cancels``), or must not overlap with them (``mutex``).
"""

from __future__ import annotations

from typing import Any, Literal

from noetl.dsl.lowering.context import MUTEX, Frame, Lowering
from noetl.dsl.program import EVERY_STEP, Node
from noetl.dsl.yaml_text.tree import Mapping, Tree, items_of, text_of


def lower_meeting(lowering: Lowering, spec: Mapping, frame: Frame) -> dict[str, Any]:
    """Lower ``spec.join``, ``spec.cancels`` and ``spec.mutex`` to fields of a ``Step``."""
    join = spec.get("join")
    return {
        **(_long(lowering, join) if isinstance(join, Mapping) else {"join": _word(join)}),
        "cancels": _cancels(spec.get("cancels")),
        "mutex": _mutex(lowering, spec.get("mutex"), frame),
    }


def _word(tree: Tree | None) -> str:
    return "sync" if tree is None else str(tree.plain())


def _long(lowering: Lowering, block: Mapping) -> dict[str, Any]:
    wait = _word(block.get("wait"))
    counted, rest = text_of(block.get("of")), text_of(block.get("rest"))
    if counted is not None and not wait.isdigit():
        _no_effect(lowering, block, "of", f"`of` says what a number counts, and this join waits for {wait}")
    if rest is not None and wait == "all":
        _no_effect(lowering, block, "rest", "a join of all arcs has no rest")
    of: Literal["arcs", "arrivals"] = "arrivals" if counted == "arrivals" and wait.isdigit() else "arcs"
    return {"join": wait, "join_of": of, "join_rest": rest or ("hold" if of == "arrivals" else "absorb")}


def _no_effect(lowering: Lowering, block: Mapping, key: str, message: str) -> None:
    lowering.diagnostics.warning("no-effect", message, block.key_pos(key), hint="remove it")


def _cancels(tree: Tree | None) -> tuple[str, ...]:
    if text_of(tree) == "all":
        return (EVERY_STEP,)
    return tuple(dict.fromkeys(text_of(item) or "" for item in items_of(tree)))


def _mutex(lowering: Lowering, tree: Tree | None, frame: Frame) -> Node | None:
    return lowering.optional(tree, frame.at(MUTEX))
