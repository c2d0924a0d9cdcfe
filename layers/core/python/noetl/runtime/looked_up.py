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

NAMING_FILES = (
    *(
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CA_BUNDLE",
        "AWS_DATA_PATH",
    ),
    *(
        "BOTO_CONFIG",
        "CLOUDSDK_CONFIG",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "KUBECONFIG",
        "NETRC",
        "XDG_CONFIG_HOME",
    ),
    *("DOCKER_CERT_PATH", "DOCKER_CONFIG", "PGPASSFILE", "PGSERVICEFILE", "PGSYSCONFDIR"),
    *(
        "CURL_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE",
        "OPENSSL_CONF",
        "OPENSSL_MODULES",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
    ),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPYCACHEPREFIX"),
)
"""Variables of the environment that name files which libraries of this process trust."""


def leave_search_path(folders: Iterable[str]) -> None:
    """Take what lies in ``folders``, or has links that lead there, out of ``PATH``.

    It starts ``docker`` and others by their names. Places of the programs that run tasks stay: tasks cannot change them.
    """
    given = tuple(folders)
    kept = (
        entry
        for entry in os.environ.get("PATH", "").split(os.pathsep)
        if _of_programs(os.path.realpath(entry)) or not (in_given(entry, given) or _leads_into(entry, given))
    )
    if given:
        os.environ["PATH"] = os.pathsep.join(kept)


def read_by_variables(folder: str) -> str | None:
    """Return a variable of this process that leads into ``folder``, or None.

    Libraries read the file that it names, and start programs that this file names.
    """
    for name in NAMING_FILES:
        for place in filter(None, os.environ.get(name, "").split(os.pathsep)):
            if in_given(place, [folder]):
                return name
    return None


def module_places() -> Iterator[str]:
    """Yield where modules are that do not lie in places of programs.

    They are loaded (their parts may be loaded later), known to a finder of packages that are installed for editing, or kinds.
    """
    places = {*_loaded(), *_mapped(), *_of_kinds()}
    yield from (place for place in sorted(places) if not _of_programs(os.path.realpath(place)))


def _leads_into(folder: str, given: tuple[str, ...]) -> bool:
    try:
        with os.scandir(folder or ".") as entries:
            return any(entry.is_symlink() and in_given(entry.path, given) for entry in entries)
    except OSError:
        return False


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
