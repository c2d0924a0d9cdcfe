"""The text of a version: a playbook and, behind it, the files that are shipped with it.

The files are a second YAML document. The playbook's own text stays as it is, so that its lines keep their numbers.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping

FIRST_LINE = "--- # files of this version"
UNREADABLE = "unreadable"
"""The key of a mapping in the place of a text: why the file could not be read."""
_BEGINS = re.compile(rf"^{re.escape(FIRST_LINE)}[ \t\r]*$", re.MULTILINE)
_UNSAFE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_SUFFIX = ".py"
_PACKAGE = "__init__"


def split_version(text: str) -> tuple[str, str]:
    """Return the text of the playbook, and that of its files (empty: it has none)."""
    found = _BEGINS.search(text)
    return (text, "") if found is None else (text[: found.start()], text[found.start() :])


def join_version(playbook: str, files: Mapping[str, str | None], reasons: Mapping[str, str]) -> str:
    """Write files behind a playbook. ``reasons``: why a file without a text could not be read."""
    if not files:
        return playbook
    lines = [playbook if playbook.endswith("\n") else f"{playbook}\n", f"{FIRST_LINE}\n"]
    for name, text in files.items():
        value = f"{{{UNREADABLE}: {_quoted(reasons[name])}}}\n" if text is None else _value(text)
        lines.append(f"{_quoted(name)}: {value}")
    return "".join(lines)


def _value(text: str) -> str:
    """Write a text as YAML: readable lines where these are exact, else one quoted line."""
    exact = text.endswith("\n") and not text.endswith("\n\n") and text.strip() and not _UNSAFE.search(text)
    if not exact:
        return f"{_quoted(text)}\n"
    indented = "".join(f"  {line}\n" if line else "\n" for line in text[:-1].split("\n"))
    return f"|2\n{indented}"


def _quoted(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"\\U{ord(found.group()):08x}", json.dumps(text, ensure_ascii=False))


def module_name(path: str) -> str | None:
    """Return the name that imports a file beside the playbook.

    None for a path that no module can have. ``rates.py`` is ``rates``, ``lib/rates.py`` is ``lib.rates``, ``lib/__init__.py`` is ``lib``.
    """
    if not path.endswith(_SUFFIX):
        return None
    parts = path.removesuffix(_SUFFIX).split("/")
    if len(parts) > 1 and parts[-1] == _PACKAGE:
        del parts[-1]
    if all(part.isidentifier() and part.isascii() and not keyword.iskeyword(part) for part in parts):
        return None if _PACKAGE in parts else ".".join(parts)
    return None
