"""Examples of the docs: shell blocks, cut into what is run and what is shown of its output; and whether an answer is what is shown."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(?:bash|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^# (?=[{\[])")
MORE = "…"


@dataclass(frozen=True, slots=True)
class Example:
    """``line`` of the page; ``shown``: the answer as the page has it, or None."""

    line: int
    command: str
    shown: Any


def examples(page: Path) -> list[Example]:
    """Of every shell block with curl in it, in order. A comment that is JSON is the output of what stands before it."""
    text = page.read_text("utf-8")
    found: list[Example] = []
    for block in _BLOCK.finditer(text):
        if "curl" not in block[1]:
            continue
        first = text.count("\n", 0, block.start(1)) + 1
        command: list[str] = []
        for number, line in enumerate(block[1].splitlines(), first):
            if _SHOWN.match(line):
                found.append(Example(number, "\n".join(command), parse(line[2:])))
                command = []
            else:
                command.append(line)
        if command:
            found.append(Example(first + len(block[1].splitlines()), "\n".join(command), None))
    return found


def parse(shown: str) -> Any:
    """JSON in which ``…`` stands for more of the same: fields of a mapping, elements of a list, the rest of a text."""
    text = re.sub(rf"([{{\[,])\s*{MORE}\s*(?=[}}\]])", rf'\1 "{MORE}"', shown)
    text = re.sub(rf'([{{,])\s*"{MORE}"\s*}}', rf'\1 "{MORE}": 0}}', text)
    return json.loads(text)


def differs(found: Any, shown: Any, place: str = "") -> str:
    """What does not fit, in words; empty when ``found`` has the shape of ``shown``. Numbers may be others; texts may end in ``…``."""
    if isinstance(shown, dict):
        return _mapping(found, shown, place) if isinstance(found, dict) else f"{place} is {found!r:.200}"
    if isinstance(shown, list):
        return _list(found, shown, place) if isinstance(found, list) else f"{place} is {found!r:.200}"
    if isinstance(shown, str) and MORE in shown:
        fits = isinstance(found, str) and found.startswith(shown.partition(MORE)[0])
        return "" if fits else f"{place} is {found!r:.200}, not {shown!r}"
    if isinstance(shown, (int, float)) and not isinstance(shown, bool):
        return (
            ""
            if isinstance(found, (int, float)) and not isinstance(found, bool)
            else f"{place} is {found!r:.200}"
        )
    return (
        "" if found == shown and type(found) is type(shown) else f"{place} is {found!r:.200}, not {shown!r}"
    )


def _mapping(found: dict[str, Any], shown: dict[str, Any], place: str) -> str:
    wanted = {name: value for name, value in shown.items() if name != MORE}
    if MORE not in shown and found.keys() != wanted.keys():
        return f"{place} has {sorted(found)}, the page shows {sorted(wanted)}"
    for name, value in wanted.items():
        if name not in found:
            return f"{place} has no {name}"
        if told := differs(found[name], value, f"{place}.{name}"):
            return told
    return ""


def _list(found: list[Any], shown: list[Any], place: str) -> str:
    wanted = shown[:-1] if shown and shown[-1] == MORE else shown
    if len(found) < len(wanted) or (len(found) > len(wanted) and wanted is shown):
        return f"{place} has {len(found)} elements, the page shows {len(wanted)}"
    for number, value in enumerate(wanted):
        if told := differs(found[number], value, f"{place}[{number}]"):
            return told
    return ""
