"""Text → ``Program``: load, refuse old shapes, check shape, lower, check meaning.

Nothing here does I/O, and the registry of kinds is given, so a playbook compiles the same way in the CLI, the API and a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from noetl.caching.lru_cache import LruCache
from noetl.domain.kinds import KindLookup
from noetl.domain.sizes.table import PLAYBOOK_BYTES
from noetl.domain.text.version_text import split_version
from noetl.dsl.checks import check_program
from noetl.dsl.diagnostics import Diagnostic, Diagnostics
from noetl.dsl.expressions import BUILT_INS, GLOBALS
from noetl.dsl.lowering import lower
from noetl.dsl.lowering.agents import with_agents
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.program import Program
from noetl.dsl.reachability import with_reachability
from noetl.dsl.reads import with_reads
from noetl.dsl.refusals import refuse_known_shapes, refuse_other_documents
from noetl.dsl.shape import check_shape, refuse_excess
from noetl.dsl.versions import SEMANTICS, program_hash
from noetl.dsl.yaml_text.loader import load
from noetl.dsl.yaml_text.tree import Mapping, Sequence, Tree, items_of, mapping_of, text_of

_CACHED = 256
FILES = ("the files of a version", "write each one as its path and its text")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program that can run, and the warnings about it."""

    program: Program
    diagnostics: tuple[Diagnostic, ...] = ()


def compile_playbook(
    text: str | bytes,
    *,
    source_name: str = "<playbook>",
    kinds: KindLookup,
    strict: bool = False,
    semantics: int = SEMANTICS,
    shipped: bool = True,
) -> Compiled:
    """Compile a version: a playbook with its files behind it.

    Raises InvalidPlaybookError with every problem and warning.

    ``strict``: spellings of older generations are errors, and what is declared and never used is warned of.
    ``semantics``: the meaning of the language that the program keeps (``versions.semantics_of``). ``shipped``: false for the playbook alone,
    whose files are not missed.
    """
    diagnostics = Diagnostics()
    playbook, behind = _split(text)
    root = load(playbook, diagnostics)
    files = _files(playbook, behind, diagnostics)
    if root is None:
        diagnostics.raise_errors(source_name)
        raise AssertionError("a document is either a tree or has problems")
    refuse_excess(root, diagnostics)
    refuse_other_documents(root, diagnostics)
    diagnostics.raise_errors(source_name)
    refuse_known_shapes(root, diagnostics)
    check_shape(root, diagnostics)
    if diagnostics.has_errors():
        _add_other_problems(root, diagnostics, source_name, kinds)
        diagnostics.raise_errors(source_name)
    lowering = Lowering(
        kinds, diagnostics, strict=strict, semantics=semantics, files=files if shipped else None
    )
    program = _lower_and_check(lowering, root, source_name)
    diagnostics.raise_errors(source_name)
    return Compiled(
        msgspec.structs.replace(program, hash=program_hash(text, semantics)), diagnostics.sorted()
    )


def _split(text: str | bytes) -> tuple[str | bytes, str]:
    """Return the playbook, and what is behind it.

    Text that is not UTF-8 is left to the loader.
    """
    if len(text) > 2 * PLAYBOOK_BYTES.value:
        return text, ""
    try:
        playbook, files = split_version(text.decode("utf-8") if isinstance(text, bytes) else text)
    except UnicodeDecodeError:
        return text, ""
    return (playbook, files) if files else (text, "")


def _files(playbook: str | bytes, behind: str, diagnostics: Diagnostics) -> dict[str, Any]:
    """Read the files behind a playbook, whose problems have the lines of the whole text."""
    if not behind:
        return {}
    lines = playbook.count("\n") if isinstance(playbook, str) else 0
    root = load("\n" * lines + behind, diagnostics, FILES)
    return {} if root is None else root.plain()


def _lower_and_check(lowering: Lowering, root: Mapping, source_name: str) -> Program:
    root = with_agents(lowering, root)
    lowering.ambiguous = _stored_names(root) & (BUILT_INS | GLOBALS)
    program = lower(lowering, root, source_name=source_name)
    program = with_reads(with_reachability(program), lowering.kinds)
    check_program(lowering, program, root)
    return program


def _add_other_problems(root: Mapping, diagnostics: Diagnostics, source_name: str, kinds: KindLookup) -> None:
    """Lower a document of a wrong shape as far as possible, to report its other problems too.

    Only problems that the wrong shapes cannot have caused are added.
    """
    if not items_of(root.get("workflow")):
        return
    others = Diagnostics()
    _lower_and_check(Lowering(kinds, others), root, source_name)
    taken = diagnostics.error_positions()
    places = [root.pos, *(key.pos for key, _ in root.items())]
    steps_are_known = all(text_of(mapping_of(step).get("step")) for step in items_of(root.get("workflow")))
    names_are_known = taken.isdisjoint((place.line, place.column) for place in places)
    for found in others.sorted():
        independent = (
            found.code in _INDEPENDENT
            or (found.code == "undefined-name" and names_are_known)
            or (found.code == "unknown-step" and steps_are_known)
        )
        if found.severity == "error" and independent and (found.line, found.column) not in taken:
            diagnostics.add(found)


_INDEPENDENT = frozenset(
    {
        *(
            "template-syntax",
            "template-in-key",
            "unknown-kind",
            "duplicate-step",
            "duplicate-task",
            "mixed-forms",
        ),
        *("unknown-event", "parallel-write", "iterator-out-of-scope", "secret-in-control-flow"),
        *("kind-params", "duplicate-spelling", "workbook-cycle", "unknown-label"),
    }
)
"""Problems that no other mistake of the document can have caused."""


_cache: LruCache[tuple[str, str, tuple[str, ...]], Compiled] = LruCache(_CACHED, PLAYBOOK_BYTES.value)


def compile_cached(
    text: str | bytes,
    *,
    source_name: str = "<playbook>",
    kinds: KindLookup,
    semantics: int = SEMANTICS,
) -> Compiled:
    """Compile a playbook, remembering the last results by content, but no failures."""
    key = (program_hash(text, semantics), source_name, kinds.names())
    found = _cache.get(key)
    if found is not None:
        return found
    compiled = compile_playbook(text, source_name=source_name, kinds=kinds, semantics=semantics)
    _cache.put(key, compiled, len(text))
    return compiled


_NAMING = frozenset(
    {"workload", "vars", "set", "set_ctx", "set_iter", "ctx", "args", "input", "with", "before", "after"}
)


def _stored_names(tree: Tree) -> frozenset[str]:
    """Collect the names that the document assigns anywhere.

    A built-in name among them may also be a stored one.
    """
    found: set[str] = set()
    queue: list[Tree] = [tree]
    while queue:
        current = queue.pop()
        if isinstance(current, Sequence):
            queue += current.items
        elif isinstance(current, Mapping):
            for key, value in current.items():
                queue.append(value)
                if key.text in _NAMING and isinstance(value, Mapping):
                    found.update(name.split(".")[-1] for name in value.entries)
                elif key.text in ("step", "into", "name"):
                    found.add(text_of(value) or "")
    return frozenset(found)
