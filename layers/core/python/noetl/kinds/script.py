"""The kind ``script``: runs a Python or shell script in a confined process.

The script is a file beside the playbook, or one that is fetched.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, model_validator

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, ParamProblem, TaskContext, TaskResult, TaskSettings
from noetl.kinds.sandbox.environment import SEARCH_PATH
from noetl.kinds.support.paths import locate, open_file, path_of_file_uri
from noetl.kinds.support.script_source import Source, fetch, time_left, unpinned
from noetl.kinds.support.subprocess_task import ProgramParams, run_to_result

SPEC = KindSpec(
    name="script",
    summary="Runs a script, Python or shell: a file beside the playbook, or one of S3, Google Cloud Storage, an address or a result.",
    pool="python",
    default_timeout=300.0,
    aliases={"path": "uri", "file": "uri"},
    ref_fields=("source",),
    result_fields=("exit_code", "stdout", "stderr", "data"),
    needs_network=True,
)

EXAMPLE: dict[str, Any] = {
    "source": {"type": "file", "path": "scripts/count_rows.py"},
    "args": ["--table", "orders"],
    "env": {"REGION": "north"},
}

Interpreter = Literal["python", "bash", "sh"]
BY_SUFFIX: Mapping[str, Interpreter] = {".py": "python", ".sh": "sh", ".bash": "bash"}
_INTERPRETER = re.compile(rb"(python|bash|sh)[\d.]*")


class Params(ProgramParams):
    """One place (``source.path``, ``source.uri`` or ``uri``), and how to call what is there."""

    source: Annotated[Source | None, Field(description="Where the script is.")] = None
    uri: Annotated[str | None, Field(min_length=1, description="Path or URI of the script.")] = None
    interpreter: Annotated[
        Interpreter | None, Field(description="Default: by first line, then by suffix.")
    ] = None
    checksum: Annotated[
        str | None,
        Field(pattern=r"^sha256:[0-9a-f]{64}$", description="Run the file only if this is its hash."),
    ] = None

    refused: ClassVar[Mapping[str, str]] = {
        "code": "write Python code in a task of `kind: python`",
        "script": "name the file under `source: {type: file, path: …}`",
        "auth": "pass what the script needs under `env`",
    }

    @model_validator(mode="after")
    def _one_place(self) -> Params:
        if (self.source is None) == (self.uri is None):
            raise ValueError("name the script once: source or uri")
        return self

    @property
    def place(self) -> Source:
        """Return where the script is.

        Raises TaskError(code="script_source") for an unknown scheme.
        """
        if self.source is not None:
            return self.source
        try:
            return Source.model_validate({"uri": self.uri})
        except ValidationError:
            raise _no_source(self.uri) from None


def check(params: Mapping[str, Any]) -> list[ParamProblem]:
    """Require a pinned checksum for a script at an address, before anything runs.

    The content at an address may change.
    """
    given = params.get("source")
    uri = given.get("uri") if isinstance(given, Mapping) else params.get("uri")
    if isinstance(uri, str) and re.match(r"https?://", uri, re.IGNORECASE) and "checksum" not in params:
        problem = unpinned(uri)
        return [ParamProblem(("source",) if given is not None else ("uri",), problem.message, problem.hint)]
    return []


def run(params: Params, context: TaskContext) -> TaskResult:
    """Run the script as ``run_to_result``.

    Raises its TaskErrors, and ``checksum``, ``script_interpreter``, those of ``locate``, ``open_file`` and ``fetch``.
    """
    source = params.place
    pin = params.checksum.removeprefix("sha256:") if params.checksum is not None else None
    if source.kind != "file":
        began = time.monotonic()
        fetched = fetch(source, pin, context)
        with tempfile.TemporaryDirectory(prefix="noetl-script-", dir=context.settings.work_dir) as folder:
            path = Path(folder, fetched.name)
            path.write_bytes(fetched.content)
            return _start(path, fetched.content, params, time_left(context, began))
    path = _locate(source.path or source.uri or "", context.settings)
    content = _read(path)
    if params.checksum is not None:
        _require_checksum(path, content, params.checksum)
    return _start(path, content, params, context)


def _start(path: Path, content: bytes, params: Params, context: TaskContext) -> TaskResult:
    command = _command(params.interpreter or _interpreter_of(path, content), path, params.texts())
    return run_to_result(path.name, command, params, context, own=(str(path),))


def _no_source(place: str | None) -> TaskError:
    return TaskError(
        f"a script cannot be run from {place!r}",
        kind="schema",
        code="script_source",
        hint="write a path, or file://, https://, s3:// or gs://",
    )


def _locate(place: str, settings: TaskSettings) -> Path:
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place)
    if scheme and scheme.group() != "file://":
        raise _no_source(place)
    return locate(path_of_file_uri(place) if scheme else place, settings)


def _read(path: Path) -> bytes:
    with open_file(path) as stream:
        return stream.read()


def _require_checksum(path: Path, content: bytes, checksum: str) -> None:
    found = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if found != checksum:
        raise TaskError(
            f"{str(path)!r} has changed: its checksum is {found}, the playbook says {checksum}",
            kind="storage_access",
            code="checksum",
        )


def _interpreter_of(path: Path, content: bytes) -> Interpreter:
    if content.startswith(b"#!"):
        found = _INTERPRETER.fullmatch(_program_of(content[2:].split(b"\n", 1)[0]))
        if found:
            names: Mapping[bytes, Interpreter] = {b"python": "python", b"bash": "bash", b"sh": "sh"}
            return names[found.group(1)]
    elif path.suffix in BY_SUFFIX:
        return BY_SUFFIX[path.suffix]
    raise TaskError(
        f"{path.name!r} does not say how to run it",
        kind="schema",
        code="script_interpreter",
        hint="begin it with #! and python, bash or sh, name it .py or .sh, or set `interpreter`",
    )


def _program_of(line: bytes) -> bytes:
    """Return the name of the program in a first line, behind ``env`` and its options."""
    words = iter(line.split())
    name = next(words, b"").rpartition(b"/")[2]
    if name == b"env":
        name = next((word for word in words if len(word) < 2 or word[:1] != b"-"), b"").rpartition(b"/")[2]
    return name


def _command(interpreter: Interpreter, path: Path, words: list[str]) -> list[str]:
    """Build the command line: the interpreter's options, then the absolute path.

    None of the arguments after it can be an option of the interpreter.
    """
    if interpreter == "python":
        return [sys.executable, "-B", "--", str(path), *words]
    program = shutil.which(interpreter, path=SEARCH_PATH)
    if program is None:
        raise TaskError(f"{interpreter} is not installed here", kind="not_found", code="script_interpreter")
    return [program, "--", str(path), *words]
