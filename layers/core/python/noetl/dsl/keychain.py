"""The credentials that a program names, in ``auth`` or by an entry of its keychain.

``credential`` is another spelling of ``auth``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.dsl.nodes import LiteralNode, Map
from noetl.dsl.program import KeychainEntry, Program

NAMING = frozenset({"auth", "credential", "credentials"})
"""Keys of a tool's parameters that name a credential, or hold a mapping with ``credential``."""
_REFERRING = ("credential", "auth", "ref")


def credential_of(entry: KeychainEntry, params: Any) -> str:
    """Return the credential of an entry: its ``credential``, ``auth`` or ``ref``, or its name.

    ``params``: rendered.
    """
    given = params if isinstance(params, dict) else {}
    name = next((given[key] for key in _REFERRING if given.get(key)), None)
    return name if isinstance(name, str) else entry.name


_MENTIONED: dict[int, tuple[Program, frozenset[str]]] = {}


def mentioned(program: Program) -> frozenset[str]:
    """Return the credentials and keychain entries that tasks of ``program`` write out.

    They are computed once per Program object.
    """
    found = _MENTIONED.get(id(program))
    if found is None or found[0] is not program:
        if len(_MENTIONED) > 512:
            _MENTIONED.clear()
        found = (program, frozenset(_named(program.steps)))
        _MENTIONED[id(program)] = found
    return found[1]


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, Map):
        for key, node in value.entries:
            yield from _name(node) if key in NAMING else ()
            yield from _named(node)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _name(entry) if key in NAMING else ()
            yield from _named(entry)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _named(getattr(value, field))
    elif isinstance(value, (tuple, list)):
        for entry in value:
            yield from _named(entry)


def _name(value: Any) -> Iterator[str]:
    """Yield the name in ``auth: name``.

    Of a mapping below it, ``_named`` finds the ``credential``.
    """
    plain = value.value if isinstance(value, LiteralNode) else value
    if isinstance(plain, str):
        yield plain
