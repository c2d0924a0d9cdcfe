"""Entries of a ``case``: the effect of each, and the rest of its guard at every boundary."""

from __future__ import annotations

from dataclasses import dataclass, field

from noetl.dsl.boundaries import CASE_EVENTS, tests_event, unnamed_events
from noetl.dsl.expressions import Analysis, analyse, has_template
from noetl.dsl.model.event import ACTIONS
from noetl.formatting.nodes import Entry, List, Value, items_of, map_of, plain
from noetl.formatting.templates import Moment, NoSpellingError, names_in, simplified

_OUTCOME = frozenset({"response", "result", "data", "status_code"})
_SUCCESS = frozenset({"response"})
_FAILURE = frozenset({"error"})
ANSWERS = frozenset({"retry", "call", "next", "result", "skip", "fail"})


@dataclass(slots=True)
class Action:
    name: str
    value: Value
    entry: Entry


@dataclass(slots=True)
class Case:
    """One entry of a case list, and what is left of its guard for each outcome.

    ``ok``, ``failed``, ``late`` (a failure that no entry answered, offered as ``call.done``) and ``at`` are False (never), True
    (always), or an expression.
    """

    entry: Entry
    actions: list[Action]
    ok: bool | str = False
    failed: bool | str = False
    late: bool | str = False
    at: dict[str, bool | str] = field(default_factory=dict)

    def all(self, name: str) -> list[Action]:
        return [action for action in self.actions if action.name == name]

    def has(self, *names: str) -> bool:
        return any(action.name in names for action in self.actions)

    @property
    def answers(self) -> bool:
        return self.has(*ANSWERS)


def read_cases(block: Value | None, *, loops: bool, calls: bool) -> list[Case]:
    """Read the entries of a step's ``case``. Raises NoSpellingError."""
    return [
        _case(entry, loops=loops, calls=calls) for entry in (block.entries if isinstance(block, List) else ())
    ]


def _case(entry: Entry, *, loops: bool, calls: bool) -> Case:
    block = map_of(entry.value)
    guard = plain(block.get("when"))
    case = Case(entry, _actions(block.get("then")))
    analysis = analyse(guard) if isinstance(guard, str) and has_template(guard) else None
    if not tests_event(analysis):
        return _unnamed(case, guard, analysis)
    if calls:
        done, error = CASE_EVENTS["call.done"], CASE_EVENTS["call.error"]
        case.ok = simplified(guard, Moment(done, _SUCCESS, _FAILURE))
        case.failed = simplified(guard, Moment(error, _FAILURE, _SUCCESS))
        case.late = _late(guard, simplified(guard, Moment(done, _FAILURE, _SUCCESS)))
    names = ["step.enter", "step.exit", *(("loop.done",) if loops else ())]
    names += ["loop.item"] if loops and calls else []
    for name in names:
        left = simplified(guard, Moment(CASE_EVENTS[name]))
        if left is not False:
            case.at[name] = left
    if "step.enter" in case.at:
        raise NoSpellingError("an entry answers `step.enter`")
    if "loop.item" in case.at:
        raise NoSpellingError("an entry answers `loop.item`")
    return case


def _unnamed(case: Case, guard: object, analysis: Analysis | None) -> Case:
    """Place an entry whose guard tests no event at the step's end."""
    if unnamed_events(analysis, answers_calls=case.has("retry", "call")) != ("step.exit",):
        raise NoSpellingError("an entry answers calls, or a failure, and names no event")
    left = simplified(guard, Moment(CASE_EVENTS["step.exit"]))
    if left is not False:
        case.at["step.exit"] = left
    return case


def _late(guard: object, left: bool | str) -> bool | str:
    """Simplify a guard for a failed call: one that touches its response is false."""
    if isinstance(left, bool):
        return left
    if not names_in(f"{{{{ {left} }}}}") & _OUTCOME:
        return left
    if analyse(f"{{{{ {left} }}}}").guarded & _OUTCOME or " or " in left:
        raise NoSpellingError("a guard looks at the response of a call that may have failed")
    return False


def _actions(then: Value | None) -> list[Action]:
    found: list[Action] = []
    for block in items_of(then) if isinstance(then, List) else [then]:
        for entry in map_of(block).entries:
            if map_of(block).has("kind") or entry.key not in ACTIONS:
                raise NoSpellingError("an entry runs inline tasks")
            found.append(Action(str(entry.key), entry.value, entry))
    return found


def touches_outcome(value: Value) -> bool:
    """Report whether a value reads what a failed call does not have."""
    return any(names_in(text) & _OUTCOME for text in texts_of(value))


def texts_of(value: Value) -> list[str]:
    """Return every template text in a value."""
    return _texts(plain(value))


def _texts(data: object) -> list[str]:
    if isinstance(data, str):
        return [data] if has_template(data) else []
    if isinstance(data, dict):
        return [text for item in data.values() for text in _texts(item)]
    return [text for item in data for text in _texts(item)] if isinstance(data, list) else []
