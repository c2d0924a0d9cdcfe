"""Entries that answer calls → rules of the task."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from noetl.dsl.expressions import has_template
from noetl.formatting.cases import Action, Case, touches_outcome
from noetl.formatting.nodes import Entry, Map, Text, Value, made, map_of, plain, text_of
from noetl.formatting.pages import Pages
from noetl.formatting.templates import NoSpellingError, Replace, expression_of, substitute
from noetl.formatting.words import after_call, reworded

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*|\[\d+\])*\Z")
_ROOTED = re.compile(r"\$((?:\.[A-Za-z_]\w*|\[\d+\])*)\Z")
_REDUCERS = {"append": "append", "extend": "extend", "merge": "merge"}
OK, FAILED = "output.status == 'ok'", "output.status == 'error'"


@dataclass(slots=True)
class Rules:
    """The rules of one task, in order; ``sets`` are writes after every success."""

    pages: Pages
    parallel: bool
    rules: list[Entry] = field(default_factory=list)
    sets: Map | None = None

    def cases(self, cases: list[Case]) -> None:
        """Convert all entries that answer a call. Raises NoSpellingError."""
        successes = [case for case in cases if case.ok is not False]
        for place, case in enumerate(successes):
            if case.has("retry"):
                self._with_limit(case, OK, case.ok, _retried(case))
            elif len(successes) == 1 and case.ok is True and case.actions and self._only_writes(case):
                self.sets = self._writes(case)
                _carry(case, self.sets)
            elif not (_only_goes(case) and all(_only_goes(later) for later in successes[place + 1 :])):
                self._rule(case, OK, case.ok)
            if case.ok is True and place + 1 < len(successes) and not case.has("retry"):
                break
        self._failures(cases)

    def _only_writes(self, case: Case) -> bool:
        return all(action.name in ("set", "collect", "next") for action in case.actions)

    def _failures(self, cases: list[Case]) -> None:
        failed = [case for case in cases if case.failed is not False]
        late = [case for case in cases if case.late is not False]
        for place, case in enumerate(failed):
            open_end = bool(failed[place + 1 :] or late)
            if case.has("next"):
                raise NoSpellingError(
                    "a failure is answered by `next`: the step ends as done there, as failed here"
                )
            if case.has("retry"):
                self._failed(case, case.failed, limited=open_end)
            elif not case.answers and late:
                raise NoSpellingError("a failure is offered to two entries")
            else:
                self._failed(case, case.failed, limited=False)
        for place, case in enumerate(late):
            rest = late[place + 1 :]
            if case.actions and touches_outcome(case.actions[0].value) and not case.has("retry"):
                if rest:
                    raise NoSpellingError("an entry that needs the response is above one for failures")
                return
            if case.has("next"):
                raise NoSpellingError(
                    "a failure is answered by `next`: the step ends as done there, as failed here"
                )
            if any(touches_outcome(action.value) for action in case.actions):
                raise NoSpellingError("an entry for failures needs the response")
            self._failed(case, case.late, limited=bool(rest))

    def _failed(self, case: Case, left: bool | str, *, limited: bool) -> None:
        if case.has("call"):
            raise NoSpellingError("a failure is answered by `call`")
        if limited and case.has("retry"):
            self._with_limit(case, FAILED, left, _retried(case))
        else:
            self._rule(case, FAILED, left, failing=True)

    def _with_limit(self, case: Case, status: str, left: bool | str, block: Map) -> None:
        """Convert an entry with a limit of tries.

        When its tries are used up it is no match, and the entries below it are evaluated.
        """
        if case.actions[0].name != "retry":
            raise NoSpellingError("an entry writes before it retries, and others follow it")
        wanted = plain(block.get("attempts"))
        total = _spoken(str(3 if wanted is None else wanted))
        self._rule(case, status, left, limit=f"_attempt < {total}")

    def _rule(
        self, case: Case, status: str, left: bool | str, *, limit: str = "", failing: bool = False
    ) -> None:
        parts = [status]
        if left is not True:
            worded = substitute(f"{{{{ {left} }}}}", after_call)[3:-3]
            parts.append(f"({worded})" if re.search(r"\bor\b|\bif\b", worded) else worded)
        then = self._then(case)
        if failing and not case.answers:
            then = {"do": "fail", **then}
        entry = self._add(" and ".join([*parts, *([limit] if limit else [])]), then)
        _carry(case, entry)

    def _then(self, case: Case) -> dict[str, Value | object]:
        found: dict[str, Value | object] = {}
        writes = self._writes(case)
        _check_order(case)
        for action in case.actions:
            match action.name:
                case "retry":
                    found |= {"do": "retry", **_retry(_retry_block(action.value), after_call)}
                case "fail" | "skip":
                    message = _message(action.value)
                    found |= {"do": action.name, **({"message": message} if message is not None else {})}
                case "call":
                    found |= {"do": "jump", "to": self.pages.label}
                    writes.entries += self.pages.turn(map_of(action.value))
                case "result":
                    found["result"] = source(action.value, after_call)
                case "sink":
                    found["sink"] = reworded(action.value, after_call)
        if writes.entries:
            keys = writes.keys()
            if len(set(keys)) != len(keys):
                raise NoSpellingError("an entry writes the same name twice")
            found = {**{k: v for k, v in found.items() if k == "do"}, "set": writes, **found}
        return found or {"do": "continue"}

    def _writes(self, case: Case) -> Map:
        return writes(case.actions, after_call, parallel=self.parallel)

    def _add(self, when: str, then: dict[str, object]) -> Entry:
        rule = made({"when": f"{{{{ {when} }}}}", "then": made(then)})
        entry = Entry(None, rule)
        self.rules.append(entry)
        return entry

    def sink(self, block: Value) -> None:
        """Convert a step-level sink: once for every success that ends the task.

        Raises NoSpellingError.
        """
        closed = False
        for entry in self.rules:
            rule = map_of(entry.value)
            when = text_of(rule.get("when")) or ""
            then = map_of(rule.get("then"))
            if not when.startswith(f"{{{{ {OK}") or text_of(then.get("do")) in (
                "retry",
                "jump",
                "skip",
                "fail",
            ):
                continue
            if then.has("sink"):
                raise NoSpellingError("an entry and the step have a sink each")
            then.put("sink", reworded(block, after_call))
            closed = closed or when == f"{{{{ {OK} }}}}"
        if not closed:
            self._add(OK, {"sink": reworded(block, after_call)})


def _only_goes(case: Case) -> bool:
    return [action.name for action in case.actions] == ["next"]


def _retried(case: Case) -> Map:
    return _retry_block(case.all("retry")[0].value)


def _retry_block(value: Value) -> Map:
    """Rewrite ``retry: 3`` as ``retry: { attempts: 3 }``."""
    if isinstance(value, Text) and value.value is not None and not isinstance(value.value, bool):
        return Map([Entry("attempts", value, "attempts")], flow=True)
    return map_of(value)


def _check_order(case: Case) -> None:
    """Refuse an entry that writes after it did something else.

    The canonical form writes first, so it would not mean the same.
    """
    names = [action.name for action in case.actions]
    others = [place for place, name in enumerate(names) if name not in ("set", "collect", "sink")]
    last_write = max((place for place, name in enumerate(names) if name in ("set", "collect")), default=-1)
    if others and last_write > others[0]:
        raise NoSpellingError("an entry writes after its other actions")
    if len(set(names) - {"set", "collect"}) != len(
        [name for name in names if name not in ("set", "collect")]
    ):
        raise NoSpellingError("an entry does the same thing twice")
    if len({"retry", "call", "fail", "skip", "result"} & set(names)) > 1:
        raise NoSpellingError("an entry answers in two ways")


def writes(actions: list[Action], change: Replace, *, parallel: bool) -> Map:
    """Write ``set`` and ``collect`` as one ``set`` block. Raises NoSpellingError."""
    found = Map([], flow=True)
    for action in actions:
        if action.name == "set":
            block = reworded(action.value, change)
            found.entries += map_of(block).entries
        elif action.name == "collect":
            found.entries.append(_collected(map_of(action.value), change, parallel=parallel))
    return found


def _collected(block: Map, change: Replace, *, parallel: bool) -> Entry:
    into = (text_of(block.get("into")) or "").removeprefix("ctx.")
    mode = text_of(block.get("mode")) or text_of(block.get("strategy")) or "append"
    inner = block.get("from", "path")
    if inner is None:
        raise NoSpellingError("`collect` has no source")
    value = source(made({"from": inner}), change)
    if mode == "replace":
        if parallel:
            raise NoSpellingError("`collect` with `mode: replace` in a parallel loop")
        return Entry(f"ctx.{into}", value, f"ctx.{into}")
    return Entry(f"ctx.{into}", made({_REDUCERS[mode]: value}), f"ctx.{into}")


def source(value: Value, change: Replace) -> Value:
    """Convert ``{from: …}`` or a value: a path becomes a template.

    Raises NoSpellingError.
    """
    block = map_of(value)
    inner = block.get("from")
    if inner is None or block.keys() != ["from"]:
        return reworded(value, change)
    text = text_of(inner)
    if text is None or has_template(text):
        return reworded(inner, change)
    rooted = _ROOTED.match(text)
    if rooted is None and not _PATH.match(text):
        raise NoSpellingError(f"{text[:60]!r} is not a path")
    path = f"response{rooted.group(1)}" if rooted else text
    return Text(substitute(f"{{{{ {path} }}}}", change))


def _message(value: Value) -> Value | None:
    inner = value.get("message") if isinstance(value, Map) else value
    if inner is None or not isinstance(plain(inner), str):
        return None
    return reworded(inner, after_call)


def _retry(block: Map, change: Replace) -> dict[str, object]:
    """Return the fields of a retry in the rule's words."""
    found: dict[str, object] = {}
    for name in ("attempts", "delay"):
        if block.has(name):
            found[name] = reworded(block.get(name) or Text(None), change)
    factor, backoff = plain(block.get("multiplier")), text_of(block.get("backoff")) or "exponential"
    if backoff != "exponential":
        found["backoff"] = backoff
    elif factor != 1:
        found["backoff"] = "exponential"
        if factor not in (None, 2):
            found["multiplier"] = reworded(block.get("multiplier") or Text(None), change)
    for name in ("max_delay", "jitter"):
        if block.has(name):
            found[name] = reworded(block.get(name) or Text(None), change)
    return found


def _spoken(total: str) -> str:
    """Write a number of tries inside an expression."""
    if not has_template(total):
        return total
    inner = expression_of(total)
    if inner is None:
        raise NoSpellingError("`attempts` is not one expression")
    return f"({inner})"


def _carry(case: Case, target: Entry | Map) -> None:
    """Move the comments above an entry to what it was converted to."""
    if isinstance(target, Map):
        if target.entries:
            target.entries[0].lead = [*case.entry.lead, *target.entries[0].lead]
        return
    target.lead = [*case.entry.lead, *target.lead]
