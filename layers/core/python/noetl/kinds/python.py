"""The kind ``python``: runs a playbook's Python code in its own warm, confined process."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.domain.errors import TaskError
from noetl.domain.kinds import CODE_CHARACTERS, KindSpec, ParamProblem, TaskContext, TaskResult
from noetl.domain.sizes.gate import find_unfit
from noetl.domain.text.version_text import module_name
from noetl.kinds.sandbox.child import Owner
from noetl.kinds.sandbox.libraries import use_libraries
from noetl.kinds.sandbox.noetl_guest.usercode import compile_code
from noetl.kinds.sandbox.pool import shared_pool
from noetl.kinds.sandbox.settings import limits_of, places_of
from noetl.kinds.sandbox.stateless import TYPES, find_kept, keeps_nothing
from noetl.kinds.sandbox.watch import Watch

if TYPE_CHECKING:
    from noetl.kinds.python_params import Params

SPEC = KindSpec(
    name="python",
    summary="Runs Python code: `result = …`, `def main(...)` or `return`; prints are log lines.",
    pool="python",
    raw_fields=("code",),
    needs_network=True,
)

AUTOMATIC, EXECUTION, PLAYBOOK = "automatic", "execution", "playbook"
"""Whose tasks share a process. ``AUTOMATIC``: that follows from the code."""

EXAMPLE: dict[str, Any] = {"code": 'def main(amount, rate=0.2):\n    return {"tax": amount * rate}\n'}

CODE_NAME = 100
"""Characters of an error's code: what the child says is cut, as code can forge its answers."""


class Code(msgspec.Struct, frozen=True):
    """``Params`` that needed no model to be checked."""

    code: str
    process: str = AUTOMATIC


def plain(params: Mapping[str, Any]) -> Code | None:
    """Return parameters that are plainly right; None: the model has to check them."""
    code, process = params.get("code"), params.get("process", AUTOMATIC)
    if len(params) != 1 + ("process" in params) or process not in (AUTOMATIC, EXECUTION, PLAYBOOK):
        return None
    if type(code) is str and 0 < len(code) <= CODE_CHARACTERS and _is_unicode(code):
        return Code(code, process)
    return None


def _is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, which the model refuses."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def __getattr__(name: str) -> Any:
    """Load ``Params`` when it is first used.

    Loading pydantic takes ten times as long as a small task.
    """
    if name != "Params":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from noetl.kinds.python_params import Params

    return Params


def check(params: Mapping[str, Any]) -> list[ParamProblem]:
    """Parse the code, so that invalid Python is found before it runs."""
    code = params.get("code")
    if not isinstance(code, str):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile_code(code, ())
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line, column = getattr(error, "lineno", None), getattr(error, "offset", None)
        words = getattr(error, "msg", None) or str(error) or "too deeply nested"
        message = f"'code' is not Python: {words}{_where(line, _source_line(code, line))}"
        hint = "`code` runs as it is written: it is Python, and no template"
        return [ParamProblem(("code",), message, hint, place=(line, max(column or 1, 1)) if line else None)]
    return []


def notes(params: Mapping[str, Any]) -> Iterator[ParamProblem]:
    """Show why each execution starts a process of its own for the code.

    Nothing where it needs none, or where ``process`` is given.
    """
    code = params.get("code")
    if not isinstance(code, str) or params.get("process", AUTOMATIC) != AUTOMATIC:
        return
    if kept := find_kept(code):
        yield ParamProblem(
            ("code",),
            f"each execution has a process of its own for this code, which may keep something: {kept.words}",
            "docs/kinds/python.md#executions-that-share-a-process lists what keeps nothing; `process: playbook` shares a process anyway",
            "own-process",
            (kept.line, kept.column),
            "note",
        )


def prepare(raw_params: Mapping[str, Any], context: TaskContext) -> None:
    """Start the process of the code, if there is none.

    Libraries are left to the call.
    """
    if not context.lock:
        shared_pool().prepare(_owner(raw_params.get("process", AUTOMATIC), raw_params.get("code"), context))


def is_unseen(raw_params: Mapping[str, Any], context: TaskContext) -> bool:
    """Return whether others see no more of the code's run than its result and its lines."""
    process = raw_params.get("process", AUTOMATIC)
    return process == AUTOMATIC and bool(context.program) and _is_stateless(raw_params.get("code"), context)


def is_at_hand(raw_params: Mapping[str, Any], context: TaskContext) -> bool:
    """Return whether a process for the code is idle."""
    return shared_pool().has_idle(_owner(AUTOMATIC, raw_params.get("code"), context))


def _owner(process: Any, code: Any, context: TaskContext, libraries: str = "") -> Owner:
    """Return whom the process works for. ``process`` and ``code``: the parameters."""
    settings = context.settings
    stateless = process == AUTOMATIC and _is_stateless(code, context)
    shared = (stateless or process == PLAYBOOK) and bool(context.program)
    return Owner(
        0 if shared else context.execution_id,
        limits_of(settings),
        places_of(settings, libraries),
        context.program if shared else "",
        shared and stateless,
    )


def _is_stateless(code: Any, context: TaskContext) -> bool:
    """Return whether no other execution can see that this code ran in its process.

    Such code imports no file of the playbook. Modules of Python could import a file that is named like one of them, so code beside such a
    file may keep something, and so may code beside libraries of its own.
    """
    if context.lock or not isinstance(code, str) or _shadows_python(context.modules):
        return False
    return TYPES.isdisjoint(context.input) and keeps_nothing(code)


def _shadows_python(modules: Mapping[str, str]) -> bool:
    """Return whether a file of a playbook is named like a module of Python."""
    names = (module_name(path) or "" for path in modules)
    return any(name.partition(".")[0] in sys.stdlib_module_names for name in names)


def run(params: Params | Code, context: TaskContext) -> TaskResult:
    """Run the code and return its result; ``meta.py`` has how many lines it printed, if any.

    Raises TaskError: kind ``transform`` with the exception's class name as code (``details``: line, source, traceback),
    ``result_not_json``, ``result_too_large``, ``output_limit``, ``process_exited``, ``process_crashed`` or ``no_answer``; kind
    ``storage_quota`` (``disk_limit``, ``out_of_memory``); kind ``timeout``; kind ``cancelled``.
    """
    with use_libraries(context) as libraries:
        owner = _owner(params.process, params.code, context, libraries)
        watch = Watch.start(context)
        with shared_pool().lease(owner) as child:
            answer = child.call(params.code, context.input, watch)
    if "error" in answer:
        raise _raised(answer["error"], context.settings.python_memory_bytes)
    if "problem" in answer:
        problem = answer["problem"] if isinstance(answer["problem"], dict) else {}
        raise TaskError(
            str(problem.get("message", "the result cannot be kept")),
            kind="transform",
            code=str(problem.get("code", "result_not_json"))[:CODE_NAME],
            hint="give back mappings with text keys, lists, texts, finite numbers, true, false or null, within the limits",
        )
    result = answer.get("result")
    unstorable = find_unfit(result)
    if unstorable is not None:
        raise TaskError(
            f"the result cannot be kept: {unstorable}",
            kind="transform",
            code="result_not_json",
            hint="give back mappings with text keys, lists, texts, finite numbers, true, false or null",
        )
    return TaskResult(result, {"py": {"lines": answer["lines"]}} if answer["lines"] else {})


def _raised(error: Any, memory_bytes: int) -> TaskError:
    """Build the TaskError of an exception that the code raised, as the child reports it."""
    facts: dict[str, Any] = error if isinstance(error, dict) else {}
    name = str(facts.get("type", "Exception"))[:CODE_NAME]
    text = str(facts.get("message", ""))
    message = f"{name}: {text}" if text else name
    return TaskError(
        message + _where(facts.get("line"), facts.get("source")),
        kind="transform",
        code=name,
        hint=_hint(name, text, memory_bytes),
        details={key: facts[key] for key in ("line", "column", "source", "traceback") if facts.get(key)},
    )


def _near(text: str) -> str:
    """Begin a hint with the module of Python whose name is nearly the one that was not found."""
    from noetl.dsl.diagnostics import did_you_mean

    _, _, named = text.partition("'")
    nearest = did_you_mean(named.partition("'")[0].partition(".")[0], sys.stdlib_module_names)
    return f"{nearest} Else " if nearest else ""


def _where(line: Any, source: Any) -> str:
    if not line:
        return ""
    return f" (line {line}: {source})" if source else f" (line {line})"


def _source_line(code: str, line: int | None) -> str:
    lines = code.splitlines()
    return lines[line - 1].strip() if line and line <= len(lines) else ""


def _hint(name: str, text: str, memory_bytes: int) -> str:
    if name == "NameError":
        return "what the code needs from the playbook is passed under input"
    if name == "ModuleNotFoundError":
        return f"{_near(text)}name a file beside the playbook under `modules:`, or a library under `executor.spec.requirements`"
    if name == "TypeError" and text.startswith("main() needs "):
        return "pass it in the task's `input`, or give the parameter a default"
    if name == "MemoryError":
        return f"a python task may use {memory_bytes} bytes of memory"
    if name == "SystemExit":
        return "give a result, or raise an exception that says what is wrong"
    if name in ("FileNotFoundError", "PermissionError"):
        return "the code of a task may read the folder of its playbook, by whole paths, and not all of the machine (docs/kinds/python.md)"
    if name == "OSError" and text.startswith(f"[Errno {errno.EROFS}]"):
        return "the code of a task writes to its working folder, or to one of NOETL_TASK_FOLDERS (docs/kinds/python.md)"
    if name == "OSError" and text.startswith(f"[Errno {errno.ENOSPC}]"):
        return "what a task writes is bounded by NOETL_TASK_DISK_MB and by the machine's disk (docs/configuration.md)"
    return "correct the line that is named, or answer the failure with a rule"
