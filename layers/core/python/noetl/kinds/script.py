"""Runs a script file, Python or shell, from an allowed folder in a confined process."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.paths import path_of_file_uri, resolve_inside
from noetl.kinds.program_task import ProgramParams, run_to_result
from noetl.kinds.sandbox.process import SEARCH_PATH

SPEC = KindSpec(
    name="script",
    summary="Runs a script file, Python or shell, from an allowed folder.",
    pool="python",
    default_timeout=300.0,
    aliases={"path": "uri", "file": "uri"},
    needs_network=True,
)

EXAMPLE: dict[str, Any] = {
    "source": {"type": "file", "path": "scripts/count_rows.py"},
    "args": ["--table", "orders"],
    "env": {"REGION": "north"},
}

Interpreter = Literal["python", "bash", "sh"]
BY_SUFFIX: Mapping[str, Interpreter] = {".py": "python", ".sh": "sh", ".bash": "bash"}
SHEBANG = re.compile(rb"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+)*)?(?:\S*/)?(python|bash|sh)[\d.]*(?=\s|$)")


class Source(BaseModel):
    """Where the script is."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    type: Annotated[str, Field(description="`file`.", json_schema_extra={"enum": ["file"]})] = "file"
    path: Annotated[
        str | None, Field(min_length=1, description="Relative to an allowed folder, or below one.")
    ] = None
    uri: Annotated[str | None, Field(min_length=1, description="The same as `file://…`.")] = None

    @field_validator("type")
    @classmethod
    def _only_files(cls, value: str) -> str:
        if value != "file":
            raise ValueError("only scripts of type 'file' can be run; put the script beside the playbook")
        return value


class Params(ProgramParams):
    """One place (``source.path``, ``source.uri`` or ``uri``), and how to call what is there."""

    source: Annotated[Source | None, Field(description="Where the script is.")] = None
    uri: Annotated[str | None, Field(min_length=1, description="Path or `file://…` of the script.")] = None
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
        source: object = self.source
        inner: list[str | None] = []
        if isinstance(source, Source):
            inner = [source.path, source.uri]
        elif source is not None:
            return self
        if sum(place is not None for place in (self.uri, *inner)) != 1:
            raise ValueError("name the script once: source.path, source.uri or uri")
        return self

    @property
    def place(self) -> str:
        """Path or URI, as given."""
        source = self.source or Source()
        return self.uri or source.path or source.uri or ""


def run(params: Params, context: TaskContext) -> TaskResult:
    """As ``run_to_result``. Raises its TaskErrors, and ``checksum``, ``script_interpreter``, and those of ``resolve_inside``."""
    path = _locate(params.place, context.settings.data_dirs)
    content = _read(path)
    if params.checksum is not None:
        _require_checksum(path, content, params.checksum)
    command = _command(params.interpreter or _interpreter_of(path, content), path, params.texts())
    return run_to_result(path.name, command, params, context)


def _locate(place: str, roots: tuple[str, ...]) -> Path:
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place)
    if scheme and scheme.group() != "file://":
        raise TaskError(
            f"a script cannot be run from {place!r}",
            kind="schema",
            code="script_source",
            hint="only files can be run; put the script beside the playbook",
        )
    path = resolve_inside(path_of_file_uri(place) if scheme else place, roots)
    if not path.is_file():
        raise TaskError(f"{place!r} is not a file", kind="storage_access", code="path_invalid")
    return path


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TaskError(
            f"{str(path)!r} cannot be read: {error.strerror}", kind="storage_access", code="file_unreadable"
        ) from None


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
        found = SHEBANG.match(content.split(b"\n", 1)[0])
        if found:
            names: Mapping[bytes, Interpreter] = {b"python": "python", b"bash": "bash", b"sh": "sh"}
            return names[found.group(1)]
    elif path.suffix in BY_SUFFIX:
        return BY_SUFFIX[path.suffix]
    raise TaskError(
        f"{str(path)!r} does not say how to run it",
        kind="schema",
        code="script_interpreter",
        hint="begin it with #! and python, bash or sh, name it .py or .sh, or set `interpreter`",
    )


def _command(interpreter: Interpreter, path: Path, words: list[str]) -> list[str]:
    """The path is absolute and comes before the arguments, so none of them can be an option of the interpreter."""
    if interpreter == "python":
        return [sys.executable, "-B", str(path), *words]
    program = shutil.which(interpreter, path=SEARCH_PATH)
    if program is None:
        raise TaskError(f"{interpreter} is not installed here", kind="not_found", code="script_interpreter")
    return [program, str(path), *words]
