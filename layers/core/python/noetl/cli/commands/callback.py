"""``noetl callback``: show and answer what an execution waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noetl.cli import errors
from noetl.cli.actions.payload import read_payload
from noetl.cli.client.connect import open_place, open_running
from noetl.cli.client.protocol import Place, resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.callbacks import example_answer, print_callbacks
from noetl.cli.render.event_stream import TaskLog
from noetl.cli.render.output import clock, note, one_line, out, out_json
from noetl.domain.callbacks import PATH
from noetl.services.callbacks.open_callbacks import only_one

if TYPE_CHECKING:
    from noetl.services.callbacks.complete_callback import CallbackQuestion


def callback(
    target: str,
    *,
    sets: Sequence[str],
    payload: str | None,
    as_json: bool,
    quiet: bool,
    at: CommandTarget,
) -> int:
    """Answer a callback and follow its execution.

    Without an answer, show what is asked for.
    """
    from noetl.cli.actions import execute

    if not sets and payload is None:
        return _look(target, as_json, at)
    body = read_payload(payload, sets)
    log = TaskLog()
    with open_running(at, on_log=log.add, takes="sound") as place:
        token = _token(place, target)
        execution_id, duplicate = place.answer(token, body)
        if duplicate and not as_json:
            note("this was answered with the same words before")
        return execute.follow(place, [execution_id], as_json=as_json, quiet=quiet, log=log, at=at)


def _look(target: str, as_json: bool, at: CommandTarget) -> int:
    with open_place(at) as place:
        if _is_execution(target):
            execution_id = resolve_id(place, target)
            found = place.callbacks(execution_id)
            if as_json:
                for one in found:
                    out_json(one)
            elif found:
                print_callbacks(found, execution_id, at, requested=True)
            else:
                note(f"execution {execution_id} waits for no callback")
            return errors.DONE
        question = place.callback_question(_bare(target))
    if as_json:
        out_json(question)
    else:
        _print_asked(question, _bare(target), at)
    return errors.DONE


def _token(place: Place, target: str) -> str:
    """Find the token of a callback.

    From an address or alone; or that of the only callback an execution waits for.
    """
    if not _is_execution(target):
        return _bare(target)
    execution_id = resolve_id(place, target)
    return only_one(list(place.callbacks(execution_id)), execution_id).token


def _is_execution(target: str) -> bool:
    return target == "latest" or target.isdigit()


def _bare(target: str) -> str:
    return target.rpartition(PATH)[2].partition("?")[0].strip()


def _print_asked(question: CallbackQuestion, token: str, at: CommandTarget) -> None:
    when = f" since {clock(question.since)}" if question.since is not None else ""
    state = f"waits for it{when}" if question.waiting else "will wait for it"
    out(
        f"execution {question.execution_id}: step {question.step}, task {question.task or '(one of several)'} {state}"
    )
    if question.until is not None:
        out(f"  until {clock(question.until)}")
    if question.message:
        out(f"  {one_line(question.message, 400)}")
    out(f"  to answer: noetl callback {token} {example_answer(question.approve)}{at.option}")
