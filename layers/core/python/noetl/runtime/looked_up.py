"""Programs and modules that this process looks for while it runs.

It does so by ``PATH``, and by finders of modules other than ``sys.path``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from noetl.kinds.registry import ENTRY_POINT_GROUP
from noetl.kinds.sandbox.places import program_places
from noetl.kinds.support.given_folders import in_given
from noetl.kinds.support.open_parts import is_inside


def leave_search_path(folders: Iterable[str]) -> None:
    """Take what lies in ``folders`` out of the ``PATH`` of this process.

    It starts ``docker`` and others by their names. Places of the programs that run tasks stay: tasks cannot change them.
    """
    given = tuple(folders)
    kept = (
        entry
        for entry in os.environ.get("PATH", "").split(os.pathsep)
        if _of_programs(os.path.realpath(entry)) or not in_given(entry, given)
    )
    if given:
        os.environ["PATH"] = os.pathsep.join(kept)


def module_places() -> Iterator[str]:
    """Yield where modules are that do not lie in places of programs.

    They are loaded (their parts may be loaded later), known to a finder of packages that are installed for editing, or kinds.
    """
    places = {*_loaded(), *_mapped(), *_of_kinds()}
    yield from (place for place in sorted(places) if not _of_programs(os.path.realpath(place)))


def _loaded() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(file, str):
            yield str(Path(file).parent)


def _mapped() -> Iterator[str]:
    for finder in sys.meta_path:
        module = sys.modules.get(getattr(finder, "__module__", ""))
        for found in (getattr(module, "MAPPING", {}), getattr(module, "NAMESPACES", {})):
            for value in found.values() if isinstance(found, dict) else ():
                yield from map(str, value if isinstance(value, list) else (value,))


def _of_kinds() -> Iterator[str]:
    for entry in metadata.entry_points(group=ENTRY_POINT_GROUP):
        try:
            spec = find_spec(entry.module.partition(".")[0])
        except (ImportError, ValueError):
            continue
        if spec is not None:
            yield from filter(None, [spec.origin, *(spec.submodule_search_locations or ())])


def _of_programs(real: str) -> bool:
    return any(is_inside(real, source) for source, _ in program_places())
