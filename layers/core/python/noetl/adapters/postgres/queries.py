"""Named queries from ``sql/queries/*.sql``.

``-- name: load_executions`` opens a block, comment lines after it describe it.
``-- part: execution_fits`` opens text that blocks of its file include as ``@execution_fits``.

Parameters are named (``:execution_id``) and numbered when the file is read, so what is sent is a plain prepared statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).with_name("sql") / "queries"
_NAME = re.compile(r"^-- (name|part): (\w+)$", re.MULTILINE)
_PART = re.compile(r"@([a-z_]+)")
_PARAMETER = re.compile(r"(?<![:']):([a-z_]+)")


class Query(msgspec.Struct, frozen=True):
    """``parameters`` in the order of ``$1``, ``$2``, … in ``text``."""

    name: str
    text: bytes
    parameters: tuple[str, ...]
    description: str

    def bind(self, values: Mapping[str, bytes | None]) -> list[bytes | None]:
        """Values in statement order. Raises KeyError for a missing one."""
        return [values[name] for name in self.parameters]


@cache
def query(name: str) -> Query:
    """Raises KeyError."""
    return _all()[name]


@cache
def _all() -> dict[str, Query]:
    found: dict[str, Query] = {}
    for path in sorted(FOLDER.glob("*.sql")):
        pieces = _NAME.split(path.read_text())
        blocks = list(zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True))
        parts = {name: _statement(body) for kind, name, body in blocks if kind == "part"}
        for kind, name, body in blocks:
            if kind == "part":
                continue
            if name in found:
                raise ValueError(f"{path.name}: there are two queries named {name}")
            found[name] = _parse(name, body, parts)
    return found


def _statement(body: str) -> str:
    return "\n".join(line for line in body.strip().splitlines() if not line.startswith("--"))


def _parse(name: str, body: str, parts: Mapping[str, str]) -> Query:
    lines = body.strip().splitlines()
    comments = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    text = _PART.sub(lambda match: parts[match[1]], _statement(body))
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    numbered = _PARAMETER.sub(lambda match: f"${parameters.index(match[1]) + 1}", text)
    return Query(name, numbered.encode(), parameters, " ".join(comments))
