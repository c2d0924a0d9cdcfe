"""Small blocks that parts of the language share: inputs, sets, result wishes, retries."""

from __future__ import annotations

import re
from typing import Literal, get_args

from noetl.domain.outcomes.outcomes import PatchScope
from noetl.domain.results.tiers import KNOWN_TIERS, TIERS
from noetl.domain.sizes.table import NAME
from noetl.dsl.lowering.context import Frame, Lowering
from noetl.dsl.program import Pos, ResultSpec, SetAction
from noetl.dsl.yaml_text.tree import Mapping, Scalar, Tree, is_null, items_of, mapping_of, text_of

REDUCERS = frozenset({"add", "append", "extend", "merge", "max", "min", "union", "first"})
SetScope = Literal["ctx", "iter", "step", "vars"]
SCOPES: tuple[str, ...] = get_args(SetScope)
SHARED: tuple[str, ...] = get_args(PatchScope)
"""Scopes that every iteration of a loop sees."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*\Z")


def spelled(lowering: Lowering, owner: Mapping, *names: str) -> Tree | None:
    """Return the value under one of several spellings; report two of them at once."""
    given = [key.text for key, value in owner.items() if key.text in names and not is_null(value)]
    if len(given) > 1:
        lowering.diagnostics.error(
            "duplicate-spelling",
            f"`{given[0]}` and `{given[1]}` are two spellings of the same thing",
            owner.key_pos(given[1]),
            hint=f"keep one of them; move everything under `{given[0]}`",
        )
    return owner.get(*given) if given else None


def lower_sets(lowering: Lowering, owner: Mapping, frame: Frame) -> tuple[SetAction, ...]:
    """Lower ``set``, ``set_ctx``, ``set_iter`` and ``set: { ctx: {…} }`` as they are written."""
    found: list[SetAction] = []
    for key, block in owner.items():
        if not isinstance(block, Mapping):
            continue
        if key.text in ("set_ctx", "set_iter"):
            found += _entries(lowering, key.text.removeprefix("set_"), block, frame)
        elif key.text == "set":
            found += _set_block(lowering, block, frame)
    return tuple(found)


def _set_block(lowering: Lowering, block: Mapping, frame: Frame) -> list[SetAction]:
    found: list[SetAction] = []
    for key, value in block.items():
        scope, dot, name = key.text.partition(".")
        if dot and scope in SCOPES:
            found += _one(lowering, scope, name, value, key.pos, frame)
        elif not dot and scope in SCOPES and isinstance(value, Mapping):
            found += _entries(lowering, scope, value, frame)
        elif not dot and (frame.form == "event" or scope not in SCOPES):
            found += _one(lowering, "ctx", key.text, value, key.pos, frame)
        else:
            lowering.diagnostics.error(
                "set-scope",
                f"`{key.text}` does not name a scope to write to"
                if dot
                else f"`{key.text}` is a scope: its entries are a mapping",
                key.pos,
                hint=f"write `ctx.{name}: …`"
                if dot
                else f"write `{scope}: {{ name: … }}`, or `{scope}.name: …`",
            )
    return found


def _entries(lowering: Lowering, scope: str, block: Mapping, frame: Frame) -> list[SetAction]:
    return [
        action
        for key, value in block.items()
        for action in _one(lowering, scope, key.text, value, key.pos, frame)
    ]


def _one(lowering: Lowering, scope: str, name: str, value: Tree, pos: Pos, frame: Frame) -> list[SetAction]:
    if not _NAME.match(name):
        hint = (
            "write `name: { inner: … }` to build a nested value"
            if "." in name
            else "use letters, digits, _ and -"
        )
        lowering.diagnostics.error(
            "bad-name", f"`{scope}.{name}` cannot be written: not a plain name", pos, hint=hint
        )
        return []
    lowering.check_name(NAME, name, f"a name in {scope}", pos)
    op, inner = _reducer(value)
    if frame.parallel and op == "set" and scope in SHARED:
        lowering.diagnostics.error(
            "parallel-write",
            f"iterations of a parallel loop would overwrite each other's `{scope}.{name}`",
            pos,
            hint=f"name a reducer: {name}: {{ append: … }} (add, append, max, min, union, first), or use iter.{name}",
        )
    remember_write(lowering, scope, name, frame)
    node = lowering.node(inner, frame)
    return [SetAction(_scope(scope), name, node, op, pos)]


def _scope(scope: str) -> SetScope:
    for known in get_args(SetScope):
        if known == scope:
            return known  # type: ignore[no-any-return]
    raise ValueError(scope)


def _reducer(value: Tree) -> tuple[str, Tree]:
    """Split a value into reducer and operand.

    A one-key mapping named after a reducer is a reducer, always.
    """
    if isinstance(value, Mapping) and len(value.entries) == 1:
        key, inner = next(iter(value.items()))
        if key.text in REDUCERS:
            return key.text, inner
    return "set", value


def remember_write(lowering: Lowering, scope: str, name: str, frame: Frame) -> None:
    """Remember that the document assigns this name."""
    if scope == "ctx":
        lowering.names.ctx.add(name)
    elif scope == "vars":
        lowering.names.vars.add(name)
    elif scope == "iter":
        lowering.names.iter.setdefault(frame.step, set()).add(name)


# --- results ---


def result_spec(lowering: Lowering, tree: Tree | None) -> ResultSpec | None:
    """Lower ``spec.result`` / ``output``, already layered."""
    block = mapping_of(tree)
    if not block.entries:
        return None
    store = block.get("store")
    parts = mapping_of(store)

    def text(name: str) -> str | None:
        found = parts.get(name) or block.get(name)
        return str(found.value) if isinstance(found, Scalar) else None

    return ResultSpec(
        inline_max_bytes=_whole(block.get("inline_max_bytes")),
        preview_max_bytes=_whole(block.get("preview_max_bytes")),
        store=_tier(lowering, parts.get("kind") if parts.entries else store),
        scope=text("scope"),
        ttl=text("ttl"),
        compression=_compression(lowering, parts.get("compression") or block.get("compression")),
        select=_selections(block.get("select")),
    )


def _tier(lowering: Lowering, tree: Tree | None) -> str | None:
    """Return the tier that a value asks for, with a warning when no place has such a tier.

    A tier that only this place lacks is reported where the playbook runs.
    """
    tier = text_of(tree)
    if tree is not None and tier and tier.strip().lower() not in KNOWN_TIERS:
        message = f"there is no tier {tier!r}: what asks for it goes to the default one"
        hint = lowering.diagnostics.suggest(tier.strip().lower(), TIERS, f"one of auto, {', '.join(TIERS)}")
        lowering.diagnostics.warning("no-effect", message, tree.pos, hint=hint)
    return tier


def _compression(lowering: Lowering, tree: Tree | None) -> str | None:
    compression = text_of(tree)
    if tree is not None and compression == "zstd":
        message = "this release has no zstd: the result is compressed by gzip"
        lowering.diagnostics.warning("no-effect", message, tree.pos, hint="write gzip, or auto")
        return "gzip"
    return compression


def _whole(tree: Tree | None) -> int | None:
    return tree.value if isinstance(tree, Scalar) and isinstance(tree.value, int) else None


def _selections(tree: Tree | None) -> tuple[tuple[str, str], ...]:
    if isinstance(tree, Mapping):
        return tuple((text_of(value) or "", key.text) for key, value in tree.items())
    pairs = [
        (text_of(mapping_of(item).get("path")), text_of(mapping_of(item).get("as")))
        for item in items_of(tree)
    ]
    return tuple((path, name) for path, name in pairs if path and name)


def overlay_input(below: Tree | None, above: Tree | None) -> Tree | None:
    """Merge two inputs of the same task: names of ``above`` win.

    A computed input replaces the other.
    """
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return Mapping({**below.entries, **above.entries}, above.pos)
    return below if above is None else above
