"""A playbook that is called by its file."""

from __future__ import annotations

from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.formatting.nodes import Text, map_of, text_of
from noetl.formatting.reading import read
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_FILES = (".yaml", ".yml")


def apply(page: Page) -> None:
    """Call it by the path that the file registers."""
    for tool in page.tools():
        entry = tool.entry("path")
        place = text_of(entry.value) if entry is not None and kind_of(tool) == "playbook" else None
        if (
            entry is None
            or place is None
            or (not place.startswith(("./", "../")) and not place.endswith(_FILES))
        ):
            continue
        path = next(
            (found for one in _places(page, place) if (found := _registered(page.read_file(one), one))), None
        )
        if path is not None:
            entry.value = Text(path)
            page.note(entry, f"the playbook of {place} is called as it is registered: {path}", safe=True)


def _places(page: Page, place: str) -> list[str]:
    """Return where the file may be: beside the playbook, or below a common folder."""
    own = text_of(map_of(page.root.get("metadata")).get("path")) or text_of(page.root.get("path")) or ""
    folder = own.rpartition("/")[0]
    return [place, place.removeprefix(f"{folder}/")] if folder and place.startswith(f"{folder}/") else [place]


def _registered(text: str | None, place: str) -> str | None:
    if text is None:
        return None
    try:
        root = read(text, place).root
    except InvalidPlaybookError:
        return None
    owners = (map_of(root.get("metadata")), root)
    return next(
        (found for key in ("path", "name") for one in owners if (found := text_of(one.get(key)))), None
    )


RULE = Rule("playbook-file", "A playbook is called by its path, and no file.", apply, repairs=True)
