"""The folders and files that a task may open.

They are those of the system, of the interpreter, of the playbook and of the operator. Everything else is closed. A folder that contains
something hidden (the home folder of the engine) is opened child by child.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from noetl.kinds.support.given_folders import settled
from noetl.kinds.support.open_parts import is_inside, open_parts

Place = tuple[str, str, str]
"""(where it is, where the task sees it, ``folder``, ``file`` or ``link``): two names for one thing where links are on the way."""

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store"),
    *("/sys/devices/system", "/sys/fs/cgroup"),
)
CONFIGURATION = (
    *("ld.so.cache", "ld.so.preload", "alternatives", "os-release", "localtime", "timezone", "locale.conf"),
    *("passwd", "group", "nsswitch.conf", "hosts", "hostname", "host.conf", "resolv.conf", "gai.conf"),
    *("services", "protocols", "mime.types", "fonts"),
    *(
        "ssl/certs",
        "ssl/cert.pem",
        "ssl/openssl.cnf",
        "pki/tls/certs",
        "pki/tls/cert.pem",
        "pki/tls/openssl.cnf",
    ),
    *("pki/ca-trust", "ca-certificates", "crypto-policies"),
)
"""Below /etc. The rest of it may hold keys that root, who runs tasks in many containers, could read."""
Pair = tuple[str, str]


class Places(msgspec.Struct, frozen=True):
    """Folders that tasks may use beside the system and the interpreter.

    ``hidden`` wins over ``read``.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    libraries: str = ""
    """Folder of the playbook's own libraries, readable also where it is hidden; empty: it has those of the worker."""


def library_path() -> list[str]:
    """Return the places of this process's libraries, without relative ones.

    A task works in another folder.
    """
    return [entry for entry in sys.path if entry.startswith("/")]


def import_path(places: Places) -> list[str]:
    """Return where a task's code imports from.

    A playbook with libraries of its own has those and the ones of Python itself: nothing that its lock does not name.
    """
    if not places.libraries:
        return library_path()
    standard = os.path.dirname(os.path.realpath(os.__file__))
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    own = [
        entry
        for entry in library_path()
        if os.path.realpath(entry) == standard or os.path.basename(entry) in ("lib-dynload", archive)
    ]
    return [*own, places.libraries]


def readable(places: Places, own: Iterable[str] = ()) -> tuple[Place, ...]:
    """List what a task may read, folders before their contents.

    ``own`` is readable even where it is hidden. What lies in an operator's folder has no place of its own, unless programs are there: tasks
    could have led its name to another place.
    """
    fixed = _fixed(places.hidden, tuple(library_path()))
    libraries = (places.libraries,) if places.libraries else ()
    read = _shown(places.read, places.hidden, places.write)
    more = [*read, *_pairs((*libraries, *own), places.write)]
    given = {place[1]: place for place in writable(places)}
    found = _without_nested({**given, **fixed}, more) if more else fixed.values()
    return tuple(place for place in found if given.get(place[1]) is not place)


def program_places() -> tuple[Pair, ...]:
    """Return where the programs and libraries of all tasks are, under every name.

    Also where modules would be looked for, if there were such a folder: a task could make it.
    """
    found = [(source, target) for source, target, _ in _fixed((), tuple(library_path())).values()]
    absent = (entry for entry in library_path() if not os.path.exists(entry))
    more = ((os.path.realpath(entry), _plain(entry)) for entry in absent)
    return (*found, *(pair for pair in more if not any(is_inside(pair[1], place) for _, place in found)))


def writable(places: Places) -> tuple[Place, ...]:
    """Return the operator's folders, without those that lie in another one.

    Hidden ones have been refused where they are set.
    """
    return tuple(_without_nested({}, _pairs(places.write, places.write)))


@cache
def _fixed(hidden: tuple[str, ...], libraries: tuple[str, ...]) -> Mapping[str, Place]:
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    guest = str(Path(__file__).resolve().parent)
    configuration = (f"/etc/{name}" for name in CONFIGURATION)
    pairs = (*_pairs((*SYSTEM, *configuration)), *_shown((*prefixes, *libraries, guest), hidden))
    return {place[1]: place for place in _without_nested({}, pairs)}


def _shown(paths: Iterable[str], hidden: Iterable[str], given: Collection[str] = ()) -> Iterator[Pair]:
    for source, target in _pairs(paths, given):
        for found in open_parts(source, hidden):
            yield (found, found) if source == target else (found, target + found[len(source) :])


def _pairs(paths: Iterable[str], given: Collection[str] = ()) -> Iterator[Pair]:
    """Each existing path under its own name and, where links lead to it, under its real one.

    Without those that tasks could have led out of ``given``, the folders that they may write to.
    """
    for path in paths:
        if os.path.exists(path) and (real := settled(path, given)) is not None:
            yield real, real
            if (plain := _plain(path)) != real:
                yield real, plain


def _plain(path: str) -> str:
    """Return a name with one slash at its begin: two mean the same to Linux."""
    return "/" + os.path.abspath(path).lstrip("/")


def _without_nested(given: Mapping[str, Place], pairs: Iterable[Pair]) -> Iterator[Place]:
    """Yield ``given`` and ``pairs``, without what is in a folder of them anyway.

    A second name of that is a link.
    """
    kept = dict(given)
    links: list[Pair] = []
    for source, target in sorted(set(pairs), key=lambda pair: pair[1]):
        if source != target:
            links.append((source, target))
        elif target not in kept and not any(above in kept for above in _above(target)):
            kept[target] = (source, target, "folder" if os.path.isdir(source) else "file")
    yield from kept.values()
    for source, target in links:
        if target in kept or any(above in kept for above in _above(target)):
            continue
        reached = source in kept or any(above in kept for above in _above(source))
        kind = "link" if reached else "folder" if os.path.isdir(source) else "file"
        kept[target] = (source, target, kind)
        yield kept[target]


def _above(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path
