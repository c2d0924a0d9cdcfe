"""Requirements of a playbook, and the lock that pins them.

This is text alone: pip resolves and installs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

LOCK = "requirements.lock"
"""The name of the lock among the files of a version, whichever name its file has."""
SUFFIX = ".lock"
_FIRST = "# noetl lock 1"
_REQUIRES = "# requires: "
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_VERSION = r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99}"
_CLAUSE = rf"(?:===|==|~=|!=|<=|>=|<|>) ?{_VERSION}(?:\.\*)?"
_REQUIREMENT = re.compile(
    rf"(?P<name>{_NAME}) ?(?P<extras>\[ ?{_NAME}(?: ?, ?{_NAME})* ?\])?"
    rf" ?(?P<clauses>{_CLAUSE}(?: ?, ?{_CLAUSE})*)? ?(?:;(?P<marker>[A-Za-z0-9_.'\"<>=!~() -]+))?"
)
"""Of a text without two spaces in a row: three optional gaps beside each other would try each split of a long one."""
_PIN = re.compile(
    rf"(?P<name>{_NAME})==(?P<version>{_VERSION})(?P<hashes>(?:[ \t]+--hash=sha256:[0-9a-f]{{64}})+)[ \t]*"
)


class LockError(Exception):
    """A lock that cannot be used; the message says why, and where in it."""


class Requirement(msgspec.Struct, frozen=True):
    """One requirement in its canonical spelling."""

    name: str
    text: str
    always: bool
    """No marker says that some machines do without it."""


class Pin(msgspec.Struct, frozen=True):
    """One package of a lock. ``hashes``: SHA-256 of the wheels that may be installed."""

    name: str
    version: str
    hashes: tuple[str, ...]


class Lock(msgspec.Struct, frozen=True):
    """A lock.

    ``requires``: the requirements that it was made for, in their canonical spelling.
    """

    requires: tuple[str, ...]
    pins: tuple[Pin, ...]


def read_requirement(text: str) -> Requirement | None:
    """Read one requirement; None for what is none, or is an address or an option of pip."""
    found = _REQUIREMENT.fullmatch(" ".join(text.split()))
    if found is None:
        return None
    name = canonical_name(found["name"])
    extras = sorted({canonical_name(one) for one in re.findall(_NAME, found["extras"] or "")})
    clauses = sorted("".join(one.split()) for one in (found["clauses"] or "").split(",") if one.strip())
    marker = " ".join((found["marker"] or "").replace("'", '"').split())
    shown = name + (f"[{','.join(extras)}]" if extras else "") + ",".join(clauses)
    return Requirement(name, f"{shown}; {marker}" if marker else shown, not marker)


def canonical_name(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(text: str) -> Lock:
    """Read a lock. Raises LockError.

    It has pins with hashes and comments: no option, address or variable, which pip would follow.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FIRST:
        raise LockError(f"line 1 is not {_FIRST!r}")
    requires: list[str] = []
    pins: dict[str, Pin] = {}
    begun, first = "", 0
    for number, line in enumerate(lines, 1):
        if not begun and line.startswith(_REQUIRES):
            requires.append(line.removeprefix(_REQUIRES).strip())
        if not begun and (not line.strip() or line.startswith("#")):
            continue
        first = first if begun else number
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1] + " "
            continue
        pin, begun = _pin(begun, first), ""
        if pin.name in pins:
            raise LockError(f"line {first}: {pin.name} is pinned twice")
        pins[pin.name] = pin
    if begun:
        raise LockError(f"line {first}: the entry has no end")
    return Lock(tuple(requires), tuple(pins.values()))


def _pin(line: str, number: int) -> Pin:
    found = _PIN.fullmatch(line)
    if found is None:
        raise LockError(
            f"line {number}: {line[:60].strip()!r} is not `name==version` with `--hash=sha256:` of its wheels"
        )
    hashes = (one.removeprefix("--hash=sha256:") for one in found["hashes"].split())
    return Pin(canonical_name(found["name"]), found["version"], tuple(sorted(set(hashes))))


def lock_text(requirements: Iterable[Requirement], pins: Iterable[Pin]) -> str:
    """Write a lock; ``read_lock`` reads it, and so does pip."""
    lines = [_FIRST, "# `noetl lock` writes this file again; pip reads it as requirements."]
    lines += [f"{_REQUIRES}{text}" for text in sorted(one.text for one in requirements)]
    return "\n".join([*lines, pins_text(pins), ""])


def pins_text(pins: Iterable[Pin]) -> str:
    """Write pins as pip reads them: the same text for the same pins."""
    entries = [
        " \\\n    ".join([f"{pin.name}=={pin.version}", *(f"--hash=sha256:{one}" for one in pin.hashes)])
        for pin in sorted(pins, key=lambda pin: pin.name)
    ]
    return "\n".join(entries)


def misfit(requirements: Sequence[Requirement], lock: Lock) -> str:
    """Return why a lock does not fit the requirements; empty when it does."""
    wanted, had = {one.text for one in requirements}, set(lock.requires)
    if lacking := sorted(wanted - had):
        return f"it was made without {lacking[0]}"
    if unwanted := sorted(had - wanted):
        return f"it was made with {unwanted[0]}, which is not required"
    pinned = {pin.name for pin in lock.pins}
    for one in requirements:
        if one.always and one.name not in pinned:
            return f"it does not pin {one.name}"
    return ""


def merged(locks: Sequence[Mapping[str, Pin]]) -> list[Pin]:
    """Merge what several platforms install. Raises LockError when their versions differ."""
    found: dict[str, Pin] = {}
    for pins in locks:
        for name, pin in pins.items():
            known = found.get(name, pin)
            if known.version != pin.version:
                raise LockError(
                    f"the platforms need different versions of {name}: {known.version}, {pin.version}"
                )
            found[name] = Pin(name, pin.version, tuple(sorted({*known.hashes, *pin.hashes})))
    return list(found.values())
