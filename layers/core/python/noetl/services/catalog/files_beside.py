"""Files that are shipped with a version.

They are read from the folder of the playbook, and written behind its text.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from noetl.domain.sizes.table import MODULES, MODULES_BYTES
from noetl.domain.text.lock_text import LOCK, SUFFIX
from noetl.domain.text.version_text import join_version, module_name, split_version

_KEY = "modules"
_REQUIREMENTS = "requirements"


class UnreadableFileError(Exception):
    """A file that is there and cannot be shipped; the message says why."""


ReadFile = Callable[[str], bytes | None]
"""Path below the playbook's folder → bytes; None: there is no such file. Raises UnreadableFileError."""


def with_files(text: str, read: ReadFile) -> str:
    """Add the files that a playbook names to its text, unless they are there already.

    A file that cannot be read is left to the compiler, which knows the place in the playbook.
    """
    if not any(key in text for key in (_KEY, _REQUIREMENTS)) or split_version(text)[1]:
        return text
    # The reader of YAML is loaded by playbooks with modules alone: a run from the cache needs none.
    from noetl.dsl.diagnostics import Diagnostics
    from noetl.dsl.yaml_text.loader import load
    from noetl.dsl.yaml_text.tree import items_of, mapping_of, text_of

    root = load(text, Diagnostics())
    if root is None:
        return text
    found: dict[str, str | None] = {}
    reasons: dict[str, str] = {}
    named = [text_of(item) or "" for item in items_of(root.get(_KEY))[: MODULES.value]]
    wanted = [path for path in named if module_name(path) is not None]
    if items_of(mapping_of(mapping_of(root.get("executor")).get("spec")).get(_REQUIREMENTS)):
        wanted.append(LOCK)
    for path in wanted:
        try:
            data = read(path)
            if data is not None:
                found[path] = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            found[path], reasons[path] = None, f"it is not UTF-8 text (byte {error.start})"
        except UnreadableFileError as error:
            found[path], reasons[path] = None, str(error)
    return join_version(text, found, reasons)


def lock_beside(playbook: Path) -> Path:
    """Return the place of a playbook's lock: ``report.lock`` of ``report.yaml``."""
    return playbook.resolve().with_suffix(SUFFIX)


def reading_beside(playbook: Path) -> ReadFile:
    """Return what reads files of the folder that a playbook lies in."""
    folder = playbook.parent.resolve()

    def read(path: str) -> bytes | None:
        place = lock_beside(playbook) if path == LOCK else folder / path
        try:
            if not place.resolve().is_relative_to(folder):
                raise UnreadableFileError("it is a link that leads out of the playbook's folder")
            if not place.is_file():
                return None
            with place.open("rb") as file:
                data = file.read(MODULES_BYTES.value + 1)
        except RuntimeError:
            raise UnreadableFileError("it is a link that leads to itself") from None
        except (OSError, ValueError) as error:
            raise UnreadableFileError(getattr(error, "strerror", None) or str(error)) from None
        return data

    return read


def text_with_files(text: str, playbook: Path) -> str:
    """Add the files beside a playbook file to its text."""
    return with_files(text, reading_beside(playbook))
