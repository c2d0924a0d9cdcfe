"""``noetl docs``: pages of the documentation, which come with the package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import noetl
from noetl.cli import errors
from noetl.cli.render.output import out, out_json, out_text
from noetl.domain.errors import NotFoundError
from noetl.dsl.diagnostics import did_you_mean

_PACKAGE = Path(noetl.__file__).parent
FOLDERS = (_PACKAGE / "docs", _PACKAGE.parents[3] / "docs")
"""Of an installed package, and of a checkout."""


def show(page: str | None, *, as_json: bool) -> int:
    """Print a page, or the list of all.

    A hint's ``docs/limits.md#requests`` is a name of a page, too.

    Raises NotFoundError(code="page_not_found").
    """
    pages = every_page()
    if page is None:
        if as_json:
            out_json(in_reading_order(pages))
        else:
            out("\n".join(in_reading_order(pages)))
        return errors.DONE
    name = page.partition("#")[0].removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise NotFoundError(
            f"there is no page {page[:80]!r}",
            code="page_not_found",
            hint=did_you_mean(name, pages, "noetl docs lists all of them"),
        )
    text = pages[name].read_text("utf-8")
    if as_json:
        out_json({"page": name, "text": text})
    else:
        out_text(text)
    return errors.DONE


def every_page() -> Mapping[str, Path]:
    """Pages by name: ``limits``, ``dsl/loops``."""
    folder = next((one for one in FOLDERS if (one / "README.md").is_file()), None)
    if folder is None:
        return {}
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}


_LINK = re.compile(r"\]\(([\w/-]+)\.md")
_USERS = "## For users"
_LAST = "adr/"


def in_reading_order(pages: Mapping[str, Path]) -> list[str]:
    """List pages in the order of the front page, each folder behind its page, records last."""
    front = pages.get("README")
    text = front.read_text("utf-8") if front is not None else ""
    linked = _LINK.findall(text.partition(_USERS)[2] or text)
    order = {name: place for place, name in reversed(list(enumerate(linked)))}

    def key(name: str) -> tuple[bool, int, str]:
        folder = name.partition("/")[0]
        place = -1 if name == "README" else order.get(name, order.get(folder, len(linked)))
        return name.startswith(_LAST), place, name

    return sorted(pages, key=key)
