"""The shape of a document: the models check it, their complaints get places and remedies."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from noetl.domain.sizes.table import STEPS
from noetl.dsl.diagnostics import Diagnostics, did_you_mean
from noetl.dsl.model import Document
from noetl.dsl.model.types import Strict
from noetl.dsl.program import Pos
from noetl.dsl.yaml_text.tree import CUT_HINT, Mapping, Sequence, Tree, cut_by_comma, items_of, mapping_of

_TYPE_NAMES = {
    "string_type": ("text", "quote it"),
    "dict_type": ("a mapping", "write key: value lines, indented"),
    "model_type": ("a mapping", "write key: value lines, indented"),
    "model_attributes_type": ("a mapping", "write key: value lines, indented"),
    "list_type": ("a list", "write `- …` items"),
    "int_type": ("a whole number", "write it without quotes"),
    "bool_type": ("true or false", "write it without quotes"),
    "float_type": ("a number", "write it without quotes"),
    "none_required": ("empty", "remove the value"),
}


def check_shape(root: Mapping, diagnostics: Diagnostics, model: type[Strict] = Document) -> None:
    """Report everything ``model`` refuses; a place that already has an error is left alone."""
    readers: dict[int, type[Strict]] = {}
    plain = root.plain()
    taken = diagnostics.error_positions()
    try:
        model.model_validate(plain, context=readers)
    except ValidationError as refused:
        for error in refused.errors(include_url=False):
            _report(error, root, plain, readers, diagnostics, taken)


def refuse_excess(root: Mapping, diagnostics: Diagnostics) -> None:
    """Report more steps than are run.

    Such a playbook is refused before anything else of it is looked at.
    """
    workflow = root.get("workflow")
    found = len(items_of(workflow))
    if workflow is not None and found > STEPS.value:
        diagnostics.error(
            "too-many-steps",
            f"workflow has {found} entries; at most {STEPS.value} are run",
            workflow.pos,
            hint="move a part into a playbook of its own and call it with kind: playbook",
            path="workflow",
        )


def _report(
    error: Any,
    root: Mapping,
    plain: Any,
    readers: dict[int, type[Strict]],
    diagnostics: Diagnostics,
    taken: set[tuple[int, int]],
) -> None:
    path = [part for part in error["loc"] if not _is_tag(part)]
    if path and path[-1] == "[key]":
        path.pop()
    kind = error["type"]
    missing = path.pop() if kind == "missing" else None
    pos = place_of(root, path, at_key=kind == "extra_forbidden" or path[-1:] == ["apiVersion"])
    if (pos.line, pos.column) in taken or _explained(root, path, taken, missing=missing is not None):
        return
    code, message, hint = _explain(error, path, missing, plain, readers)
    if kind == "extra_forbidden" and cut_by_comma(mapping_of(_owner(root, path)), str(path[-1])):
        hint = CUT_HINT
    diagnostics.error(code, message, pos, hint=hint, path=show_path(path))


def _owner(root: Tree, path: list[Any]) -> Tree:
    """Return the mapping that holds the last part of ``path``."""
    tree = root
    for part in path[:-1]:
        tree = tree.entries[part][1] if isinstance(tree, Mapping) else tree.items[part]  # type: ignore[union-attr]
    return tree


def _explained(root: Tree, path: list[Any], taken: set[tuple[int, int]], *, missing: bool) -> bool:
    """Report whether a key on the way to ``path`` was refused already.

    For a missing key, one of its neighbours counts.
    """
    tree = root
    for part in path:
        if isinstance(tree, Mapping) and part in tree.entries:
            key, tree = tree.entries[part]
            if (key.pos.line, key.pos.column) in taken:
                return True
        elif isinstance(tree, Sequence) and isinstance(part, int) and part < len(tree.items):
            tree = tree.items[part]
        else:
            return False
    return (
        missing
        and isinstance(tree, Mapping)
        and any((k.pos.line, k.pos.column) in taken for k, _ in tree.items())
    )


def _is_tag(part: Any) -> bool:
    return isinstance(part, str) and part.startswith("<") and part.endswith(">")


def _explain(
    error: Any, path: list[Any], missing: Any, plain: Any, readers: dict[int, type[Strict]]
) -> tuple[str, str, str | None]:
    kind, context = error["type"], error.get("ctx", {})
    where = _described(path, plain) or "the document"
    if kind == "noetl":
        return context["code"], context["message"], context["hint"]
    if kind == "missing":
        return "missing-key", f"`{missing}` is missing from {where}", f"add `{missing}: …`"
    if kind == "extra_forbidden":
        return _unknown_key(path, plain, readers)
    if kind == "literal_error":
        return _wrong_word(path, error["input"], context["expected"])
    if kind == "too_short":
        return "wrong-type", f"{where} is empty", "give it at least one entry, or remove the key"
    if kind == "too_long":
        found, most = context["actual_length"], context["max_length"]
        return "too-many-entries", f"{where} has {found} entries, more than {most}", "remove some of them"
    expected, hint = _TYPE_NAMES.get(kind, ("something else", "see the language reference"))
    return "wrong-type", f"{where} must be {expected}, not {_shown(error['input'])}", hint


def _wrong_word(path: list[Any], value: Any, expected: str) -> tuple[str, str, str]:
    name = path[-1] if path else "value"
    if name == "apiVersion":
        return (
            "api-version",
            f"apiVersion is {_shown(value)}; only noetl.io/v2 is run",
            "write apiVersion: noetl.io/v2",
        )
    if path == ["kind"]:
        return "document-kind", f"kind is {_shown(value)}; only Playbook is run", "write kind: Playbook"
    words = [word.strip("' ") for word in expected.replace(" or ", ", ").split(",")]
    guess = did_you_mean(str(value), words, f"write one of: {', '.join(words)}")
    return "wrong-value", f"`{name}` cannot be {_shown(value)}; it is one of {', '.join(words)}", guess or ""


def _unknown_key(
    path: list[Any], plain: Any, readers: dict[int, type[Strict]]
) -> tuple[str, str, str | None]:
    key, owner = str(path[-1]), plain
    for part in path[:-1]:
        owner = owner[part]
    reader = readers.get(id(owner))
    known = reader.known_keys() if reader is not None else []
    where = _described(path[:-1], plain) or "the root"
    hint = did_you_mean(key, known, f"known keys here: {', '.join(known)}")
    return "unknown-key", f"`{key}` is not a key of {where}", hint


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _described(path: list[Any], plain: Any) -> str:
    """Describe the path as an author would: ``loop of step 'pull'``."""
    if len(path) < 2 or path[0] != "workflow":
        return show_path(path)
    block = plain["workflow"][path[1]]
    name = block.get("step") if isinstance(block, dict) else None
    step = f"step {name!r}" if isinstance(name, str) else show_path(path[:2])
    return f"{show_path(path[2:])} of {step}" if len(path) > 2 else step


def show_path(path: list[Any]) -> str:
    """Show a path as ``workflow[2].tool.url``."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else str(part)
    return shown


def place_of(root: Tree, path: list[Any], *, at_key: bool) -> Pos:
    """Return the place of the value at ``path``, or of its key.

    It is the nearest owner's place when the path does not exist.
    """
    tree, pos = root, root.pos
    for part in path:
        if isinstance(tree, Mapping) and part in tree.entries:
            key, tree = tree.entries[part]
            pos = key.pos if at_key else tree.pos
            if isinstance(tree, Mapping) and not at_key and tree.pos.line > key.pos.line:
                pos = key.pos
        elif isinstance(tree, Sequence) and isinstance(part, int) and part < len(tree.items):
            tree = tree.items[part]
            pos = tree.pos
        else:
            break
    return pos
