"""Functions in subprocesses, close to the real thing and quick enough to test with.

* They run under an interpreter that has boto3 and nothing else, like the managed runtime: what a layer lacks is missing here too.
* Layers are unpacked once, not at every cold start.
* A function that cannot be imported logs its traceback.
* A site folder may be added to every Python function: its .pth files are executed before the function is imported.
* A function marks the end of each invocation's log. The emulator reads as far as the mark: it waits for no output that never comes,
  and it loses no line of a function that is slow to write or is replaced right after.
* Schedules are looked at each second, not every ten, and the placeholders in a schedule's input are filled.
* A queue that is not there is not read, and a queue is read once for a function.
* A message is read at once also when it comes right after the end of an invocation, as by the pollers of Lambda.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import queue
import re
import shutil
import time
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SITE = "python/lib/python3/site-packages"
"""A folder of a layer whose .pth files are executed."""
INIT_ERROR = '{"status": "error", "error": str(e)})'
INIT_TRACEBACK = '{"status": "error", "error": traceback.format_exc()})'
CALL = "            result = handler_fn(event, context)\n"
LOG_END = "\x1fend of invocation\x1f"
"""What a function writes to standard error after each invocation. Lines before it belong to the invocation."""
LOG_SECONDS = 10.0
"""How long the emulator waits for the mark of a function that has answered."""
EXITED_SECONDS = 1.0
"""How long it reads the log of a function that has exited: a child that still runs may hold the pipe open."""
POLL_SECONDS = 0.05
TICK_SECONDS = 1
WAKE_GAP_SECONDS = 0.005
"""How long the readers of queues rest after they were woken and found nothing. The emulator lets them rest for 50 ms, so that the first
command of an execution waited for them when another execution had just ended."""
NO_QUEUE = (
    "Error occurred while ReceiveMessage. SQS Error Code: AWS.SimpleQueueService.NonExistentQueue. "
    "SQS Error Message: The specified queue does not exist."
)


def improve(runtime_python: str, layers: Path, site: Path | None = None) -> None:
    """Patch the emulator (its version is pinned).

    ``site``: a site folder of every Python function.
    """
    from ministack.core import lambda_runtime
    from ministack.services import eventbridge, lambda_svc, scheduler

    scripts = lambda_runtime._detect_runtime_binary

    def detect(runtime: str) -> tuple[str, str]:
        binary, script = scripts(runtime)
        if not runtime.startswith("python"):
            return binary, script
        return runtime_python, with_site(with_log_end(script.replace(INIT_ERROR, INIT_TRACEBACK)), site)

    lambda_runtime._detect_runtime_binary = detect
    lambda_svc._execute_function_warm = functools.partial(_logged, lambda_svc._execute_function_warm)
    real = lambda_svc._resolve_layer_zip
    lambda_svc._layer_unzipped_size = lambda attachment: lambda_svc._unzipped_size(real(attachment))
    lambda_svc._resolve_layer_zip = functools.partial(_pointer, real, layers)
    drain = lambda_runtime.Worker._drain_stderr_bounded
    lambda_runtime.Worker._drain_stderr_bounded = functools.partialmethod(_drain, drain)
    lambda_svc._create_esm = functools.partial(_map_source, lambda_svc._create_esm)
    eventbridge._invoke_target = functools.partial(_invoke_scheduled, eventbridge._invoke_target)
    _set(lambda_svc, "_ESM_IDLE_WAKE_GAP_SECONDS", WAKE_GAP_SECONDS)
    scheduler._SCHEDULE_TICK_INTERVAL = TICK_SECONDS
    eventbridge._SCHEDULER_TICK_INTERVAL = TICK_SECONDS


def _set(module: Any, name: str, value: float) -> None:
    """Change a number of the emulator.

    Raises RuntimeError when the pinned emulator has no such number.
    """
    if not isinstance(getattr(module, name, None), int | float):
        raise RuntimeError(f"the emulator has no {name} any more")
    setattr(module, name, value)


def with_site(script: str, site: Path | None) -> str:
    """The script that runs a Python function, with a site folder added first."""
    return script if site is None else f"import site\nsite.addsitedir({str(site)!r})\n{script}"


def with_log_end(script: str) -> str:
    """Return the script that runs a Python function, with a mark after each invocation's log.

    Raises RuntimeError when the script does not call its handler where the pinned emulator does.
    """
    if script.count(CALL) != 1:
        raise RuntimeError("the emulator's script of Python functions has changed; see LOG_END")
    marked = (
        "            try:\n"
        f"    {CALL}"
        "            finally:\n"
        f"                sys.stderr.write({LOG_END!r} + '\\n')\n"
        "                sys.stderr.flush()\n"
    )
    return script.replace(CALL, marked)


def _drain(worker: Any, unmarked: Any, **waits: float) -> str:
    """Return what an invocation logged; ``unmarked`` reads functions that are not in Python."""
    if not str(worker.config.get("Runtime", "python3")).startswith("python"):
        return str(unmarked(worker, **waits))
    # A worker that failed has no process any more.
    exited = worker._proc is None or worker._proc.poll() is not None
    return read_log(
        worker._stderr_queue, worker._stderr_thread.is_alive, EXITED_SECONDS if exited else LOG_SECONDS
    )


def read_log(lines: queue.Queue[str], more: Callable[[], bool], seconds: float) -> str:
    """Return the lines up to the mark.

    Ends before the mark when ``more`` says that no line can come, or after ``seconds``.
    """
    found, until = [], time.monotonic() + seconds
    while True:
        ending = not more() or time.monotonic() > until
        try:
            line = lines.get(timeout=0 if ending else POLL_SECONDS)
        except queue.Empty:
            if ending:
                break
            continue
        text, marked, _ = line.partition(LOG_END)
        if text or not marked:
            found.append(text)
        if marked:
            break
    return "\n".join(found)


def _logged(execute: Any, *call: Any) -> dict[str, Any]:
    """Log why a function cannot be imported, and return its error in one line, as Lambda does."""
    result: dict[str, Any] = execute(*call)
    body = result.get("body")
    if result.get("error") and not result.get("log") and isinstance(body, dict):
        text = str(body.get("errorMessage", "")).strip()
        result["log"] = text
        body["errorMessage"] = text.rpartition("\n")[2]
    return result


def _map_source(create: Any, params: Mapping[str, Any]) -> Any:
    """Map an event source, and refuse it where Lambda refuses it.

    The emulator itself takes any queue, any number of times.
    """
    from ministack.core.responses import error_response_json
    from ministack.services import lambda_svc, sqs

    arn = str(params.get("EventSourceArn", ""))
    if ":sqs:" not in arn:
        return create(params)
    queue = sqs._queues.get(sqs._queue_url(arn.rpartition(":")[2]))
    if not queue or queue["attributes"].get("QueueArn") != arn:
        return error_response_json("InvalidParameterValueException", NO_QUEUE, 400)
    function = lambda_svc._resolve_request_scoped_name(str(params.get("FunctionName", "")))
    if any(
        one["EventSourceArn"] == arn and one["FunctionName"] == function for one in lambda_svc._esms.values()
    ):
        return error_response_json("ResourceConflictException", "The mapping already exists", 409)
    return create(params)


def _invoke_scheduled(
    invoke: Any, target: Mapping[str, Any], event: Mapping[str, Any], rule: Mapping[str, Any], *more: Any
) -> Any:
    """Invoke a scheduled target with the placeholders of its input filled.

    EventBridge Scheduler fills them; the emulator leaves them as they are.
    """
    if event.get("Source") == "aws.scheduler" and "Input" in target:
        moment = due(str(rule.get("ScheduleExpression", "")), float(event["Time"]))
        target = {**target, "Input": filled(str(target["Input"]), event, moment)}
    return invoke(target, event, rule, *more)


def due(expression: str, now: float) -> datetime:
    """When a schedule that fires now was due: the moment it names, else the full minute."""
    once = re.fullmatch(r"at\((.+)\)", expression)
    if once:
        return datetime.fromisoformat(once[1]).replace(tzinfo=UTC)
    return datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0)


def filled(text: str, event: Mapping[str, Any], moment: datetime) -> str:
    """``text`` with Scheduler's placeholders filled."""
    values = {
        "schedule-arn": str((event.get("Resources") or [""])[0]),
        "scheduled-time": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        "execution-id": str(event.get("EventId", "")),
        "attempt-number": "1",
    }
    for name, value in values.items():
        text = text.replace(f"<aws.scheduler.{name}>", value)
    return text


def _pointer(resolve: Any, layers: Path, attachment: Any) -> bytes | None:
    """Instead of a layer, a tiny one that leads to its unpacked files."""
    data: bytes | None = resolve(attachment)
    if data is None:
        return None
    folder = unpacked(data, layers)
    if not (folder / "python").is_dir():
        return data
    return pointer_layer(folder)


def pointer_layer(folder: Path) -> bytes:
    """Make a layer whose only file puts Python folders in front of the search path.

    The folders are those of ``folder``.
    """
    python = folder / "python"
    places = [python, *sorted(python.glob("lib/python3*/site-packages"))]
    lines = [f"import sys; sys.path.insert({index}, {str(place)!r})" for index, place in enumerate(places)]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{SITE}/noetl-layer.pth", "\n".join(lines) + "\n")
    return packed.getvalue()


def unpacked(data: bytes, layers: Path) -> Path:
    """The folder with the contents of the zip ``data``, made once.

    Raises RuntimeError for names that lead outside.
    """
    folder = layers / hashlib.sha256(data).hexdigest()[:24]
    if folder.is_dir():
        return folder
    fresh = layers / f".{folder.name}-{os.getpid()}-{os.urandom(4).hex()}"
    fresh.mkdir(parents=True)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if not (fresh / name).resolve().is_relative_to(fresh.resolve()):
                shutil.rmtree(fresh, ignore_errors=True)
                raise RuntimeError(f"the layer has an entry outside of itself: {name}")
        archive.extractall(fresh)
    try:
        fresh.rename(folder)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        if not folder.is_dir():
            raise
    return folder
