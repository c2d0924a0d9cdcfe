"""The payload of a run: a file (JSON or YAML) with ``--set`` values laid over it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.patches.scope_patches import deep_merge
from noetl.domain.sizes.gate import check_document, exceeded, too_many_digits
from noetl.domain.sizes.table import (
    DOCUMENT_BYTES,
    DOCUMENT_DEPTH,
    INTEGER_DIGITS,
    PLAYBOOK_ALIASES,
    PLAYBOOK_VALUES,
    SET_DEPTH,
    Size,
)

if TYPE_CHECKING:
    from noetl.dsl.diagnostics import Diagnostic

_SEGMENTS = SET_DEPTH.value
_LIMITS = {
    "yaml-too-large": DOCUMENT_BYTES,
    "yaml-too-deep": DOCUMENT_DEPTH,
    "yaml-number": INTEGER_DIGITS,
    "yaml-too-many-nodes": PLAYBOOK_VALUES,
    "yaml-alias-limit": PLAYBOOK_ALIASES,
}
"""Codes of the reader of YAML that are about the size of a document."""
_SUBJECTS = {
    "yaml-too-large": "the document",
    "yaml-too-deep": "a value",
    "yaml-number": "a whole number",
    "yaml-too-many-nodes": "the document",
    "yaml-alias-limit": "the document",
}


def read_payload(source: str | None, sets: Sequence[str]) -> dict[str, Any]:
    """``source``: a file name, ``-`` for stdin, or None. Raises InvalidInputError."""
    payload: dict[str, Any] = _parse_document(*_read(source)) if source else {}
    for text in sets:
        keys, value = parse_set(text)
        for key in reversed(keys):
            value = {key: value}
        payload = deep_merge(payload, value)
    check_document(payload, "payload")
    return payload


def read_document(source: str) -> Any:
    """JSON or YAML of a file, or of stdin (``-``). Raises InvalidInputError."""
    name, data = _read(source)
    value = _parse_json(name, data)
    return _parse_yaml(name, data) if value is None else value


def _read(source: str) -> tuple[str, bytes]:
    if source == "-":
        return "<stdin>", sys.stdin.buffer.read()
    try:
        return source, Path(source).read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"{source[:200]} cannot be read: {error.strerror or error}",
            code="invalid_payload",
            hint="name a file of JSON or YAML, or - for stdin; --set NAME=VALUE sets a single value",
        ) from error


def _parse_document(name: str, data: bytes) -> dict[str, Any]:
    value = _parse_json(name, data)
    if value is None:
        value = _parse_yaml(name, data)
    if not isinstance(value, dict):
        raise InvalidInputError(
            f"{name}: a payload is a mapping, not a {type(value).__name__}",
            code="invalid_payload",
            hint='such as {"city": "Seattle"}',
        )
    return value


def _parse_json(name: str, data: bytes) -> Any:
    """None for what has to be YAML; a file that calls itself JSON is held to it."""
    try:
        return codec.decode(data)
    except (ValueError, RecursionError) as error:
        if not name.endswith(".json"):
            return None
        if too_many_digits(error):
            raise exceeded(INTEGER_DIGITS, None, f"{name}: a whole number") from None
        place, what = name, "nested too deeply" if isinstance(error, RecursionError) else str(error)
        if isinstance(error, json.JSONDecodeError):
            place, what = f"{name}:{error.lineno}:{error.colno}", error.msg
        raise InvalidInputError(
            f"{place}: {what}", code="invalid_payload", hint="a payload is a JSON or YAML mapping"
        ) from error


def _parse_yaml(name: str, data: bytes) -> Any:
    """Read a document of YAML 1.2 within the limits of documents.

    Of values and aliases it may have as many as a playbook.
    """
    from noetl.dsl.diagnostics import Diagnostics
    from noetl.dsl.yaml_text.loader import load

    if not data.strip():
        return {}
    diagnostics = Diagnostics()
    tree = load(
        data,
        diagnostics,
        ("a payload", 'such as {"city": "Seattle"}'),
        max_bytes=DOCUMENT_BYTES.value,
        # Of a document the values count, and the innermost list may be empty: the gate finds what is deeper than that.
        max_depth=DOCUMENT_DEPTH.value + 1,
    )
    if tree is None:
        problem = diagnostics.sorted()[0]
        if (size := _limit_of(problem)) is not None:
            found = len(data) if size is DOCUMENT_BYTES else None
            raise exceeded(size, found, f"{name}:{problem.line}:{problem.column}: {_SUBJECTS[problem.code]}")
        raise InvalidInputError(
            f"{name}:{problem.line}:{problem.column}: {problem.message}",
            code="invalid_payload",
            hint="a payload is a JSON or YAML mapping",
        )
    return tree.plain()


def _limit_of(problem: Diagnostic) -> Size | None:
    """Return the limit that a problem of YAML is about, if it is about one."""
    if problem.code == "yaml-number" and "digits" not in problem.message:
        return None
    return _LIMITS.get(problem.code)


def read_output(text: str) -> Any:
    """Read the value of ``--output``: JSON or a YAML scalar, or ``@FILE`` of either.

    Raises InvalidInputError.
    """
    if not text.startswith("@"):
        return parse_value(text)
    name, data = _read(text[1:])
    value = _parse_json(name, data)
    return _parse_yaml(name, data) if value is None else value


def parse_set(text: str) -> tuple[list[str], Any]:
    """``a.b=1`` → (["a", "b"], 1). Raises InvalidInputError."""
    name, equals, value = text.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise InvalidInputError(
            f"--set {text!r} is not name=value",
            code="invalid_set",
            hint="write --set city=Seattle, or --set limits.days=7 for a nested key",
        )
    if len(keys) > _SEGMENTS:
        what = f"--set {name[:60]!r}"
        raise exceeded(SET_DEPTH, len(keys), what, code="invalid_set", remedy="give a mapping as JSON")
    return keys, parse_value(value)


def parse_value(text: str) -> Any:
    """Read a value of the command line.

    JSON when it begins like a list, mapping or quoted text, else a plain YAML 1.2 scalar, else the text unchanged.
    """
    stripped = text.strip()
    if stripped[:1] in ('"', "[", "{"):
        try:
            return codec.decode(stripped)
        except (ValueError, RecursionError) as error:
            if stripped[0] == '"' or stripped.startswith("{{"):
                return text
            if too_many_digits(error):
                raise exceeded(INTEGER_DIGITS, None, "--set: a whole number") from None
            raise InvalidInputError(
                f"--set: {stripped[:60]!r} begins like JSON but is not: {error}",
                code="invalid_set",
                hint='quote it for the shell, such as --set \'cities=["Seattle", "Paris"]\'',
            ) from error
    return _scalar(text, stripped)


def _scalar(text: str, stripped: str) -> Any:
    import yaml
    from yamlcore import CCoreLoader

    from noetl.dsl.yaml_text.scalars import BadScalar, typed_value

    loader: Any = CCoreLoader("")
    try:
        tag = loader.resolve(yaml.ScalarNode, stripped, (True, False))
        return text if tag.endswith(":str") else typed_value(tag, stripped)
    except BadScalar as bad:
        if bad.too_long:
            raise exceeded(INTEGER_DIGITS, None, "--set: a whole number") from None
        return text
    finally:
        loader.dispose()
