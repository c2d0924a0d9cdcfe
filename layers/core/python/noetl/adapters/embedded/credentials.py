"""Credentials of a local run, from the file that ``NOETL_CREDENTIALS`` names.

YAML or JSON, by name::

    warehouse:
      type: postgres
      data: {host: db.example, user: etl, password: "…"}
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential

MAX_BYTES = 1024 * 1024
MAX_NESTING = 32
_EXAMPLE = "name: {type: postgres, data: {host: …, user: …, password: …}}"


class FileCredentials:
    """Credentials from a file that is read on use, and again when it has changed.

    ``warn`` gets one line when others can read it. ``path`` None: no file is configured, every name is unknown.
    """

    def __init__(self, path: Path | None, warn: Callable[[str], None] = lambda line: None) -> None:
        self._path = path
        self._warn = warn
        self._warned = False
        self._version: tuple[int, int] | None = None
        self._found: dict[str, Credential] = {}
        self._lock = threading.Lock()

    def get(self, name: str, execution_id: int) -> Credential:
        """Read a credential.

        Raises TaskError(kind="auth"): ``credential_not_found``, or ``credentials_file`` when the file cannot be used.
        """
        with self._lock:
            known = self._read()
        if name in known:
            return known[name]
        raise TaskError(
            f"there is no credential {name!r}{_names(known)}",
            kind="auth",
            code="credential_not_found",
            hint=self._remedy(),
        )

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        with self._lock:
            known = self._read()
        return {name: known[name].type for name in names if name in known}

    def known(self) -> Sequence[str]:
        with self._lock:
            return list(self._read())

    def _remedy(self) -> str:
        if self._path is None:
            return f"noetl credential add NAME --type …, or a file with {_EXAMPLE} and NOETL_CREDENTIALS set to its path"
        return f"noetl credential add NAME --type …, or add it to {self._path} as {_EXAMPLE}"

    def _read(self) -> dict[str, Credential]:
        if self._path is None:
            return {}
        try:
            status = self._path.stat()
            version = (status.st_mtime_ns, status.st_size)
            if version != self._version:
                if status.st_size > MAX_BYTES:
                    raise _unusable(self._path, f"it is larger than {MAX_BYTES} bytes")
                self._found = _parse(self._path, self._path.read_text(encoding="utf-8"))
                self._version = version
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(self._path, str(error)) from error
        if status.st_mode & 0o077 and not self._warned:
            self._warned = True
            self._warn(f"{self._path} can be read by other users of this machine: chmod 600 {self._path}")
        return self._found


def _parse(path: Path, text: str) -> dict[str, Credential]:
    # YAML is loaded for a file that is there: most processes read none.
    import yaml
    from yamlcore import CCoreLoader

    try:
        _check_nesting(path, text)
        document = yaml.load(text, Loader=CCoreLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise _unusable(path, f"{problem} (at {path.name}{place})") from None
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise _unusable(path, "it has to map names to credentials")
    return {str(name): _credential(path, str(name), entry) for name, entry in document.items()}


def _check_nesting(path: Path, text: str) -> None:
    """Refuse a document that would exhaust the parser, before anything is built.

    Aliases are refused.
    """
    import yaml
    from yamlcore import CCoreLoader

    depth = 0
    for event in yaml.parse(text, Loader=CCoreLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_NESTING or isinstance(event, yaml.AliasEvent):
            raise _unusable(path, "it is nested too deeply or uses aliases")


def _credential(path: Path, name: str, entry: Any) -> Credential:
    if not isinstance(entry, Mapping) or set(entry) != {"type", "data"}:
        raise _unusable(path, f"credential {name!r} has to have exactly the keys type and data")
    if not isinstance(entry["type"], str) or not isinstance(entry["data"], Mapping):
        raise _unusable(path, f"credential {name!r}: type has to be text and data a mapping")
    return Credential(name, entry["type"], dict(entry["data"]))


def _unusable(path: Path, reason: str) -> TaskError:
    return TaskError(
        f"the credentials file {path} cannot be used: {reason}",
        kind="auth",
        code="credentials_file",
        hint=f"it maps names to credentials: {_EXAMPLE}",
    )


def _names(known: Mapping[str, Credential]) -> str:
    """Describe which names the file has.

    It is nothing of an empty one: others may be registered.
    """
    listed = sorted(known)
    return "; known: " + ", ".join(listed[:20]) + (" …" if len(listed) > 20 else "") if listed else ""
