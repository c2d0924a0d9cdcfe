"""``on`` of an arc: the ends of its step at which it is open, as a guard."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from noetl.domain.kinds import KindLookup
from noetl.domain.outcomes.step_ends import ERROR_KINDS, EVENTS, NO_ENDS, STEP_CODES, condition
from noetl.dsl.boundaries import DONE, EVENT_NAMES, FAILED
from noetl.dsl.diagnostics import listing
from noetl.dsl.expressions import Analysis
from noetl.dsl.kind_facts import find_spec
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr, LiteralNode, Node, Pos
from noetl.dsl.yaml_text.tree import Mapping, Scalar, items_of, made_text

_OTHER_NAMES = dict.fromkeys(DONE, "done") | dict.fromkeys(FAILED, "failed")
_ALIKE = 0.85
"""How alike a misspelt ``failed`` is: codes of kinds may end with it (``tls_failed``)."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What decides how a step may end."""

    loops: bool = False
    calls: tuple[str, ...] = ()
    """The kinds of its tasks."""

    def codes(self, kinds: KindLookup) -> list[str] | None:
        """Return the codes of its errors, those of its kinds first.

        None: a kind does not list them.
        """
        found: list[str] = []
        for name in self.calls:
            spec = find_spec(kinds, name)
            if spec is None or spec.codes is None:
                return None
            found += spec.codes
        return [*found, *sorted(STEP_CODES)]


def open_at(lowering: Lowering, arc: Mapping, step: str, ending: Ending) -> str:
    """Return the condition that ``on`` of an arc means; empty without one."""
    tree = arc.get("on")
    words = [
        str(item.value)
        for item in ([tree] if isinstance(tree, Scalar) else items_of(tree))
        if isinstance(item, Scalar) and _is_end(lowering, item, step, ending)
    ]
    return condition(words) if words else ""


def _is_end(lowering: Lowering, item: Scalar, step: str, ending: Ending) -> bool:
    """Report whether the step may end so; refuse the word otherwise."""
    word = str(item.value)
    if word == "loop.done" and not ending.loops:
        return _refused(lowering, item, f"step {step!r} has no loop", "write done")
    if word in EVENTS or word in ERROR_KINDS:
        return True
    if word in _OTHER_NAMES:
        guess = _OTHER_NAMES[word]
        return _refused(
            lowering, item, f"the event {word!r} has a word of its own here", f"did you mean {guess!r}?"
        )
    if word in EVENT_NAMES:
        message = f"{word!r} happens inside of the step, before its end"
        return _refused(lowering, item, message, "react to it in a rule of the task, or a `case`")
    codes = ending.codes(lowering.kinds)
    if word in (STEP_CODES if codes is None else codes):
        return True
    guess = NO_ENDS.get(word.lower()) or _misspelt(word)
    if codes is None or guess:
        return not guess or _refused(
            lowering, item, f"no step ends with {word!r}", f"did you mean {guess!r}?"
        )
    known = (*EVENTS, *sorted(ERROR_KINDS), *codes)
    hint = lowering.diagnostics.suggest(word, known, listing("it ends with", known))
    return _refused(lowering, item, f"step {step!r} never ends with {word[:80]!r}", hint)


def _misspelt(word: str) -> str:
    """Return the event that a word is a misspelling of; empty: none."""
    close = difflib.get_close_matches(word.lower()[:20], EVENTS, n=1, cutoff=_ALIKE)
    return close[0] if close else ""


def _refused(lowering: Lowering, item: Scalar, message: str, hint: str | None) -> bool:
    lowering.diagnostics.error("unknown-end", message, item.content_pos(), hint=hint)
    return False


def narrowed(lowering: Lowering, when: Node | None, place: Pos, on: str) -> Node | None:
    """Return the guard that asks ``when`` where ``on`` holds, and is false at other ends.

    What the author wrote comes first in its text, so that an error in it has its place.
    """
    if when is None:
        return _made(lowering, on, place)
    if isinstance(when, Expr):
        source = f"({when.source}) if {on} else false"
        return _made(lowering, source, Pos(when.pos.line, max(when.pos.column - 1, 1))) or when
    if not isinstance(when, LiteralNode):
        lowering.diagnostics.error(
            "guard-not-expression",
            "the `when` beside `on` is text around a template",
            getattr(when, "pos", place),
            hint="put the whole condition inside one pair of braces",
        )
    return when


def _made(lowering: Lowering, source: str, place: Pos) -> Expr | None:
    analysis = lowering.analysis(made_text(f"{{{{ {source} }}}}", place))
    if analysis is None:
        return None
    reads = analysis.reads(lowering.ambiguous)
    return Expr(source, place, reads, lenient=lowering.semantics > 2, chooses=analysis.chooses)


def both(on: str, when: Analysis | None) -> str:
    """Return a template that is true where ``on`` and ``when`` are, for proofs about it."""
    return f"{{{{ {on} and ({when.expression}) }}}}" if when and when.expression else f"{{{{ {on} }}}}"
