"""The life of a warm child: limits first, then calls one by one until its parent goes.

Frames are a length (4 bytes, big endian) and JSON. Calls come in on what was standard input, answers leave on
a descriptor of their own; 1 and 2 are the task's own output. Every answer repeats the random
``id`` of its call, so an answer that user code forged ahead of time fits no later call.
"""

from __future__ import annotations

import _thread
import json
import marshal
import math
import os
import resource
import select
import sys
import time
from contextlib import suppress
from itertools import islice
from textwrap import dedent
from types import TracebackType
from typing import Any, NoReturn

from .confine import Confinement, confine
from .modules import install, line_of
from .order import from_arguments
from .plain import NotJsonError, plain
from .used import LITTLE, Used
from .usercode import FILENAME, execute, forget_code

LENGTH = 4
CHUNK = 4096
"""Bytes of a frame that are read at first: most frames are shorter."""
READY = "ready"
"""The id of the first frame: limits are in force."""
MESSAGE_CHARACTERS = 2000
TRACE_FRAMES = 10
SPARE_CPU_SECONDS = 10
PROCESSORS = os.cpu_count() or 1


def main() -> None:
    """Serve as a process of its own."""
    order, lifeline, own = from_arguments()
    confine(Confinement(**order["confinement"]), lifeline)
    run(order, own)


def run(order: Any, own: list[int]) -> None:
    """Serve until end of file, in a confined process. ``own``: the descriptor of answers."""
    requests = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    (answers,) = own
    os.set_inheritable(answers, False)
    if sys.platform != "linux":  # there a supervisor does that
        _thread.start_new_thread(_end_with_parent, (requests,))
    prepare_output()
    serve(requests, answers, order)


def prepare_output() -> None:
    """Write output line by line, as UTF-8, and set what is the same for all code."""
    sys.argv[:] = [FILENAME]
    sys.dont_write_bytecode = True
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]


def rehearse() -> None:
    """Run a call of no task, and keep nothing of it.

    A process that waits for its task so copies the pages that every call touches, before its task waits for that.
    """
    values = _decode(_encode({"value": 1}))
    _encode({"result": plain(execute(_REHEARSED, values, lambda names: {}, ("value",), _COMPILED))})
    forget_code()


def serve(requests: int, answers: int, order: Any) -> NoReturn:
    """Serve until end of file, in a process whose output is prepared.

    ``order``: its ``path`` of libraries, and the ``answer_size``.
    """
    sys.path[:] = order["path"]
    os.write(answers, _READY)
    session = _Session(requests, answers, order["answer_size"])
    while (request := _read(requests)) is not None:
        session.answer(request)
    _leave()


class _Session:
    """Calls of one execution, or of those that share the process."""

    def __init__(self, requests: int, answers: int, answer_size: int) -> None:
        self._requests = requests
        self._answers = answers
        self._answer_size = answer_size
        self._streams = (sys.stdout, sys.stderr)
        self._used = Used()
        self._warnings: list[None] | None = None
        """One for each warning that was shown, in a process of code that keeps nothing."""
        self._asks = False
        """An answer of the worker is on its way. When it was not read, as there was no memory, it would be taken for the next call."""

    def answer(self, request: bytes) -> None:
        """Run one call and send its outcome. ``request``: see ``noetl.kinds.sandbox.request``."""
        call_id, code, names, made, values, seconds, shipped, shared, stateless = marshal.loads(request)
        if shipped is not None:
            install(shipped)
        sys.stdout, sys.stderr = self._streams
        if stateless and self._warnings is None:
            self._warnings = _note_warnings()
            self._used = Used(LITTLE, unseen=True)
            self._used.is_too_much()
        _allow_cpu(seconds)

        def ask(names: list[str]) -> dict[str, Any]:
            self._asks = True
            _write(self._answers, _encode({"id": call_id, "need": names}))
            found = _read(self._requests)
            self._asks = False
            if found is None:
                _leave()
            return _decode(found)  # type: ignore[no-any-return]

        try:
            answer = {"id": call_id, "result": plain(execute(code, _decode(values), ask, names, made))}
        except NotJsonError as error:
            answer = _problem(call_id, "result_not_json", str(error))
        except BaseException as error:
            answer = {"id": call_id, "error": _describe(error, code)}
            answer["worn"] = isinstance(error, MemoryError)
        # A warning that Python shows once only would be missing in the log of the next execution.
        if not self._flush() or self._asks or self._warnings or (shared and self._used.is_too_much()):
            answer["worn"] = True
        _write(self._answers, self._encoded(answer))

    def _flush(self) -> bool:
        """Send what was printed.

        Return False when the code closed its output, and no later call could print.
        """
        try:
            for stream in self._streams:
                stream.flush()
                os.fstat(stream.fileno())
        except (ValueError, OSError):
            return False
        return True

    def _encoded(self, answer: dict[str, Any]) -> bytes:
        try:
            data = _encode(answer)
        except MemoryError:
            message = "no memory is left to write the result"
            return _encode(_problem(answer["id"], "result_too_large", message) | {"worn": True})
        if len(data) <= self._answer_size:
            return data
        message = f"the result is {len(data)} bytes of JSON; at most {self._answer_size} are allowed"
        problem = _problem(answer["id"], "result_too_large", message)
        return _encode(problem | {"worn": answer.get("worn", False)})


def _note_warnings() -> list[None]:
    """Return a list that gets an entry for each warning that is shown from now on."""
    import warnings

    noted: list[None] = []
    show = warnings.showwarning

    def note(*about: Any, **more: Any) -> None:
        noted.append(None)
        show(*about, **more)

    warnings.showwarning = note
    return noted


_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""Made once, before a process is forked for a task: for everything that a task makes or changes, it copies pages of memory."""


def _decode(data: bytes) -> Any:
    return _scan(data.decode("utf-8", "surrogatepass"), 0)[0]


def _encode(answer: dict[str, Any]) -> bytes:
    return _encoder.encode(answer).encode()


def _problem(call_id: str, code: str, message: str) -> dict[str, Any]:
    return {"id": call_id, "problem": {"code": code, "message": message}}


def _describe(error: BaseException, code: str) -> dict[str, Any]:
    """Describe an error and its place in the user's code, without frames of libraries."""
    trace: list[tuple[int, str]] = []
    shown: list[str] = []
    lines = code.splitlines()

    def source(line: int) -> str:
        return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""

    def show(line: int, name: str) -> None:
        where = "the code" if name in ("<module>", "__body__") else name
        shown.append(f"line {line}, in {where}: {source(line)}")

    column = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILENAME:
            trace.append((step.tb_lineno, step.tb_frame.f_code.co_name))
            show(*trace[-1])
            column = _byte_column(step)
        elif found := line_of(step.tb_frame.f_code.co_filename, step.tb_lineno):
            shown.append(f"{found[0]} line {step.tb_lineno}, in {step.tb_frame.f_code.co_name}: {found[1]}")
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename == FILENAME and error.lineno:
        trace.append((error.lineno, "<module>"))
        show(*trace[-1])
        column = None

    return {
        "type": type(error).__name__[:100],
        "message": _message(error),
        "line": trace[-1][0] if trace else None,
        "column": _column(code, trace[-1][0], column) if trace else None,
        "source": source(trace[-1][0]) if trace else "",
        "traceback": shown[-TRACE_FRAMES:],
    }


def _byte_column(step: TracebackType) -> int | None:
    """Return the column of the failing expression in its line, in bytes of UTF-8 from 0.

    None when the interpreter does not know it.
    """
    at = step.tb_lasti // 2
    line, _, column, _ = next(islice(step.tb_frame.f_code.co_positions(), at, None), (None, None, None, None))
    return column if line == step.tb_lineno else None


def _column(code: str, line: int, column: int | None) -> int | None:
    """Return a column of ``code`` as it was written, in characters from 1.

    Without a column, it is that of the first visible character.

    Code that is indented as a whole ran without that margin (see ``compile_code``).
    """
    lines, ran = code.splitlines(), dedent(code).splitlines()
    if not 0 < line <= len(lines):
        return None
    text = ran[line - 1]
    margin = len(lines[line - 1]) - len(text)
    if column is None:
        return margin + len(text) - len(text.lstrip()) + 1
    return margin + len(text.encode()[:column].decode(errors="replace")) + 1


def _message(error: BaseException) -> str:
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException as second:
        text = f"its message cannot be read: {type(second).__name__}"
    return text[:MESSAGE_CHARACTERS]


def _allow_cpu(seconds: float) -> None:
    """Limit processor time, for code whose parent died while C code held the interpreter."""
    soft = math.ceil(time.process_time() + seconds * PROCESSORS) + SPARE_CPU_SECONDS
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def _end_with_parent(requests: int) -> None:
    """Watches for the other end of ``requests`` to close."""
    poller = select.poll()
    poller.register(requests, 0)
    poller.poll()
    _leave()


def _leave() -> NoReturn:
    """Remove the folder if it is empty, since no other process will, and exit."""
    with suppress(OSError):
        os.rmdir(os.getcwd())
    os._exit(0)


def _read(source: int) -> bytes | None:
    """Read the next frame; None at end of file.

    The worker sends no frame before it has the answer to the last one.
    """
    data = os.read(source, CHUNK)
    size = LENGTH + int.from_bytes(data[:LENGTH], "big")
    while len(data) < size:
        more = os.read(source, size - len(data))
        if not more:
            return None
        data += more
    return data[LENGTH:]


def _write(target: int, data: bytes) -> None:
    frame = len(data).to_bytes(LENGTH, "big") + data
    written = os.write(target, frame)
    if written < len(frame):
        view = memoryview(frame)[written:]
        while view:
            view = view[os.write(target, view) :]


def _frame_ready() -> bytes:
    data = _encode({"id": READY})
    return len(data).to_bytes(LENGTH, "big") + data


_READY = _frame_ready()
_REHEARSED = "result = value"
_COMPILED = marshal.dumps(compile(_REHEARSED, FILENAME, "exec", dont_inherit=True, optimize=0)), False
