"""A file of environments (`environments.yaml`): each is like a preset or another of the file, but for the settings that it names.

    staging-eu:
      like: staging
      network: { cidr: 10.60.0.0/16 }
      tags: { team: data }

The settings are the fields of infra/config.py; mappings are merged, lists replaced. What is wrong is said with file, line and column.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from noetl.dsl.diagnostics import Diagnostics, did_you_mean
from noetl.dsl.program import Pos
from noetl.dsl.yaml_text import loader, tree

from .config import ConfigError, Environment, name_problem

DEFAULT = "environments.yaml"
LIKE = "like"
_OWN = frozenset({"name"})
"""Fields that the file cannot set: the key is the name."""
_PATHS = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """``entries``: what the file says about each environment. Without a file there are none."""

    path: str = ""
    entries: Mapping[str, tree.Mapping] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.entries)

    def bases_of(self, name: str) -> list[str]:
        """What the environment is like, the nearest first."""
        return [base for base in self._chain(name) if base != name]

    def preset_of(self, name: str, presets: Sequence[str]) -> str:
        """Return the preset that it is like in the end. Raises ConfigError."""
        found = self._chain(name)[-1]
        if found not in presets and found not in self.entries:
            hint = did_you_mean(found, [*presets, *self.entries])
            raise ConfigError(f"{self.path}: there is no environment {found!r}{f'; {hint}' if hint else ''}")
        if found not in presets:
            entry = self.entries[found]
            raise ConfigError(
                f"{self._at(entry.pos)}: the environment {found!r} does not say what it is like: "
                f"add `like:` with one of {', '.join(one for one in presets if one != 'local')}"
            )
        return found

    def apply(self, name: str, preset: Environment) -> Environment:
        """Return ``preset`` with what the file says, from the outermost base inwards.

        Raises ConfigError.
        """
        layers = [self.entries[one] for one in reversed(self._chain(name)) if one in self.entries]
        if not layers:
            return preset
        merged = asdict(preset)
        for layer in layers:
            self._check_names(layer.without(LIKE), Environment, ())
            merged = _merge(merged, layer.without(LIKE).plain())
        try:
            return TypeAdapter(Environment).validate_python(merged)
        except ValidationError as error:
            raise ConfigError(self._explain(error, layers)) from error
        except ConfigError as error:
            raise ConfigError(f"{self._at(layers[-1].pos)}: {error}") from error

    def _chain(self, name: str) -> list[str]:
        """``name``, what it is like, what that is like, up to a preset. One that is named like a preset changes that preset."""
        chain = [name]
        while (entry := self.entries.get(chain[-1])) is not None:
            given = entry.get(LIKE)
            base = tree.text_of(given) if given is not None else None
            if base is None:
                break
            if base in chain:
                if base == chain[-1]:
                    break
                raise ConfigError(
                    f"{self._at(given.pos if given else entry.pos)}: {' is like '.join([*chain, base])}"
                )
            chain.append(base)
        return chain

    def _check_names(self, given: tree.Mapping, kind: Any, path: _PATHS) -> None:
        """Refuse keys that are no settings. Raises ConfigError."""
        hints = typing.get_type_hints(kind)
        known = [one.name for one in fields(kind) if path or one.name not in _OWN]
        for key, value in given.items():
            if key.text not in known:
                where = ".".join(map(str, path)) or "an environment"
                hint = did_you_mean(key.text, known, f"settings: {', '.join(sorted(known))}")
                raise ConfigError(f"{self._at(key.pos)}: {where} has no setting {key.text!r}; {hint}")
            self._check_value(value, hints[key.text], (*path, key.text))

    def _check_value(self, value: tree.Tree, hint: Any, path: _PATHS) -> None:
        for kind, depth in _dataclasses(hint):
            for one, at in _values(value, depth, path):
                if isinstance(one, tree.Mapping):
                    self._check_names(one, kind, at)

    def _explain(self, error: ValidationError, layers: Sequence[tree.Mapping]) -> str:
        found = []
        for one in error.errors():
            path = tuple(part for part in one["loc"] if not str(part).startswith("function-"))
            pos = next((at for layer in reversed(layers) if (at := _place(layer, path)) is not None), None)
            given = repr(one["input"])[:60]
            found.append(
                f"{self._at(pos or layers[-1].pos)}: {'.'.join(map(str, path))} is {given}: {one['msg']}"
            )
        return "; ".join(dict.fromkeys(found))

    def _at(self, pos: Pos) -> str:
        return f"{self.path}:{pos.line}:{pos.column}"


def read_file(path: str) -> EnvironmentFile:
    """Read the file at ``path``; "": environments.yaml of the working folder, if there is one.

    Raises ConfigError.
    """
    place = Path(path or DEFAULT)
    if not path and not place.is_file():
        return EnvironmentFile()
    try:
        content = place.read_bytes()
    except OSError as error:
        raise ConfigError(f"environments={path}: {error.strerror or error}") from error
    found = Diagnostics()
    what = ("a file of environments", "begin with a name, and `like: dev` below it")
    root = loader.load(content, found, what)
    if root is None:
        raise ConfigError("; ".join(one.format(str(place)) for one in found.sorted()))
    entries: dict[str, tree.Mapping] = {}
    for key, value in root.items():
        if problem := name_problem(key.text):
            raise ConfigError(f"{place}:{key.pos.line}:{key.pos.column}: {problem}")
        if not isinstance(value, tree.Mapping):
            raise ConfigError(
                f"{place}:{key.pos.line}:{key.pos.column}: {key.text!r} is no mapping: write `like: dev` below it"
            )
        entries[key.text] = value
    return EnvironmentFile(str(place), entries)


def _merge(base: Any, given: Any) -> Any:
    if isinstance(base, dict) and isinstance(given, dict):
        return {**base, **{key: _merge(base.get(key), value) for key, value in given.items()}}
    return given


def _dataclasses(hint: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Each dataclass in a type, and how many containers are around it."""
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint, depth
        return
    origin = typing.get_origin(hint)
    inside = 0 if origin in (types.UnionType, typing.Union) else 1
    for one in typing.get_args(hint):
        yield from _dataclasses(one, depth + inside)


def _values(value: tree.Tree, depth: int, path: _PATHS) -> Iterator[tuple[tree.Tree, _PATHS]]:
    if not depth:
        yield value, path
    elif isinstance(value, tree.Mapping):
        for key, one in value.items():
            yield from _values(one, depth - 1, (*path, key.text))
    elif isinstance(value, tree.Sequence):
        for index, one in enumerate(tree.items_of(value)):
            yield from _values(one, depth - 1, (*path, index))


def _place(node: tree.Tree, path: _PATHS) -> Pos | None:
    """Where the value at ``path`` is, or the last key on the way to it; None when not even the first is there."""
    found: Pos | None = None
    for part in path:
        if isinstance(node, tree.Mapping) and node.has(str(part)):
            found = node.key_pos(str(part))
            node = node.entries[str(part)][1]
        elif isinstance(node, tree.Sequence) and isinstance(part, int) and part < len(tree.items_of(node)):
            node = tree.items_of(node)[part]
            found = node.pos
        else:
            break
    return found
