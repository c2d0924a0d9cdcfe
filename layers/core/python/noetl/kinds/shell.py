"""The kind ``shell``: runs shell commands in a confined process.

Their input is passed as arguments and variables, never as text of the command.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from noetl.domain.errors import TaskError
from noetl.domain.kinds import HOLE, KindSpec, ParamProblem, TaskContext, TaskResult
from noetl.domain.text.braces import is_of_another_tool, templates_in
from noetl.kinds.sandbox.environment import SEARCH_PATH
from noetl.kinds.support.given_folders import is_folder
from noetl.kinds.support.subprocess_task import ProgramParams, run_to_result

SPEC = KindSpec(
    name="shell",
    summary="Runs shell commands in a confined process.",
    pool="python",
    default_timeout=300.0,
    aliases={"cmd": "command", "commands": "command"},
    raw_fields=("command",),
    result_fields=("exit_code", "stdout", "stderr", "data"),
    needs_network=True,
)

EXAMPLE: dict[str, Any] = {
    "command": 'wc -l < "$FILE"',
    "env": {"FILE": "/etc/hostname"},
}

MOST_TEXT = 64 * 1024
_MISSING = re.compile(
    r"""[ '"`](?:\.{1,2}/[^:'"]*['"]?: (?:not found|No such file)|(?![/.-])[\w.-]+(?:/[^:'"]*|\.\w+)['"]?: No such file)"""
)
"""What shells and their programs say of a file that is not there: it is in the folder that the command begins in, or nowhere."""
_NO_FOLDER = (
    "a shell command begins in an empty folder of its own, or in one that is named for it: "
    "`noetl run FILE --task-folder DIR` (docs/kinds/shell.md)"
)


class Params(ProgramParams):
    """``command``, with ``args`` as ``$1``, ``$2`` … and ``env`` as variables."""

    refused: ClassVar[Mapping[str, str]] = {
        "script": "run a file with `kind: script`",
        "auth": "pass what the command needs under `env`",
        "cwd": "each call has an empty folder of its own",
    }

    command: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MOST_TEXT,
            description="What the shell runs, or a list of it, line by line. Never a template.",
        ),
    ]
    interpreter: Annotated[Literal["sh", "bash"], Field(description="Which shell.")] = "sh"

    @field_validator("command", mode="before")
    @classmethod
    def _lines(cls, value: Any) -> Any:
        """Join a list to lines: the first one that fails ends it, as in a text."""
        if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
            return "\n".join(value)
        return value


def check(params: Mapping[str, Any]) -> list[ParamProblem]:
    """Refuse a template in the command, which is never rendered, on purpose."""
    command = params.get("command")
    templates = (
        () if command is HOLE else (str(command)[slice(*found)] for found in templates_in(str(command)))
    )
    shown = next((template[:60] for template in templates if not is_of_another_tool(template)), None)
    if shown is None:
        return []
    return [
        ParamProblem(
            ("command",),
            f"the command is taken as it is: {shown} would not be rendered",
            'give the value a name under `env` (NAME: "{{ … }}") and write "$NAME" in the command',
        )
    ]


def run(params: Params, context: TaskContext) -> TaskResult:
    """Run the command as ``run_to_result``; it ends at its first failing line (``set -eu``).

    With bash it also ends when a part of a pipe fails.

    It begins in the first folder that tasks were given, else in an empty one of its own. Raises its TaskErrors, ``shell_missing``, and
    ``task_folder``.
    """
    program = shutil.which(params.interpreter, path=SEARCH_PATH)
    if program is None:
        raise TaskError(f"{params.interpreter} is not installed here", kind="not_found", code="shell_missing")
    strict = ["-eu"] if params.interpreter == "sh" else ["-eu", "-o", "pipefail"]
    words = [program, *strict, "-c", params.command, params.interpreter, *params.texts()]
    begins_in = next(iter(context.settings.task_folders), "")
    if begins_in and not is_folder(begins_in):
        raise TaskError(
            f"the folder {begins_in!r}, in which shell commands begin, is not there",
            kind="storage_access",
            code="task_folder",
            hint="it is named by --task-folder, or NOETL_TASK_FOLDERS",
        )
    try:
        return run_to_result("the command", words, params, context, begins_in=begins_in)
    except TaskError as error:
        if not begins_in and _misses_a_file(error):
            error.hint = error.hint or _NO_FOLDER
        raise


def _misses_a_file(error: TaskError) -> bool:
    """Return whether a command ended because it misses a file with a relative path."""
    last = str((error.details or {}).get("stderr", "")).rstrip().rpartition("\n")[2]
    return error.code.startswith("exit_") and bool(_MISSING.search(last))
