"""The facts of a row of history as the database keeps them.

Most rows of a chain say that a step is done and the next one begins. What follows from the first fact is a list at the end of the row, with
what no other fact says: ``[{"name":"call.done","run":1,"step":"a","result":…},[2,"b",0,"python"]]``. Every other row is kept as it is. The
view ``noetl_history.facts`` reads both forms, too.
"""

from __future__ import annotations

import re

_EXIT = b',{"name":"step.exit","run":'
_STEP = rb'"([^"\\\[\]]+)"'
_FIRST = re.compile(rb'\[\{"name":"[a-z.]+","run":([0-9]+),"step":' + _STEP)
_FOLLOWS = re.compile(
    rb',\{"name":"step\.exit","run":([0-9]+),"step":'
    + _STEP
    + rb'\},\{"name":"next\.evaluated","run":\1,"step":"\2","targets":\[\{"run":([0-9]+),"step":'
    + _STEP
    + rb',"arc":([0-9]+)\}\]\},\{"name":"step\.enter","run":\3,"step":"\4"\},'
    rb'\{"name":"command\.issued","run":\3,"step":"\4","command_id":"\3","pool":' + _STEP + rb"\}\]"
)
_SHORT = re.compile(rb",\[([0-9]+)," + _STEP + rb",([0-9]+)," + _STEP + rb"\]\]")


def short(facts: bytes) -> bytes:
    """Encoded facts → as a row keeps them."""
    at = facts.rfind(_EXIT)
    follows = _FOLLOWS.fullmatch(facts, at) if at > 0 else None
    if follows is None:
        return facts
    run, step, next_run, next_step, arc, pool = follows.groups()
    first = _FIRST.match(facts)
    if first is None or first.groups() != (run, step):
        return facts
    return facts[:at] + b',[%b,"%b",%b,"%b"]]' % (next_run, next_step, arc, pool)


def plain(kept: bytes) -> bytes:
    """Return the facts of a row as they were encoded.

    A row of another form comes back as it is, an item's outcome too.
    """
    if not kept.endswith(b"]]"):
        return kept
    at = kept.rfind(b",[")
    found = _SHORT.fullmatch(kept, at) if at > 0 else None
    first = _FIRST.match(kept)
    if found is None or first is None:
        return kept
    run, step = first.groups()
    next_run, next_step, arc, pool = found.groups()
    return kept[:at] + (
        b',{"name":"step.exit","run":%b,"step":"%b"},{"name":"next.evaluated","run":%b,"step":"%b","targets":'
        b'[{"run":%b,"step":"%b","arc":%b}]},{"name":"step.enter","run":%b,"step":"%b"},'
        b'{"name":"command.issued","run":%b,"step":"%b","command_id":"%b","pool":"%b"}]'
    ) % (run, step, run, step, next_run, next_step, arc, *(next_run, next_step) * 2, next_run, pool)
