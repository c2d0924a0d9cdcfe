"""Needs of a playbook where it runs: credentials, and playbooks that it calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from noetl.domain.text.braces import templates_in
from noetl.domain.text.wildcards import fits
from noetl.dsl.diagnostics import Diagnostic, did_you_mean
from noetl.dsl.keychain import NAMING, credential_of
from noetl.dsl.program import Expr, KeychainEntry, LiteralNode, Map, Node, Pos, Program, Text
from noetl.dsl.work import tasks_in
from noetl.ports.catalog import Catalog


class Need(msgspec.Struct, frozen=True):
    """A credential or playbook that is needed, by its name.

    ``parts``: the name is computed, and these are its known parts, with at least a character between two of them. ``version``: of a
    playbook; None: the latest.
    """

    name: str
    pos: Pos
    parts: tuple[str, ...] = ()
    version: int | None = None


class Needs(msgspec.Struct, frozen=True):
    credentials: tuple[Need, ...] = ()
    playbooks: tuple[Need, ...] = ()


def needs_of(program: Program) -> Needs:
    """Collect the needs of a program, each with the line that has it."""
    entries = {entry.name for entry in program.keychain}
    credentials = [need for entry in program.keychain if (need := _of_entry(entry)) is not None]
    playbooks: list[Need] = []
    for step in program.steps:
        for task in tasks_in(step):
            if task.kind == "playbook":
                playbooks += _paths(task.params, task.pos)
            else:
                credentials += [Need(name, task.pos) for name in _named(task.params) if name not in entries]
    return Needs(_once(credentials), _once(playbooks))


def _once(needs: list[Need]) -> tuple[Need, ...]:
    return tuple({(one.name, one.pos.line): one for one in needs}.values())


def _of_entry(entry: KeychainEntry) -> Need | None:
    params = _literals(entry.params)
    computed = isinstance(entry.params, Map) and any(
        key in ("credential", "auth", "ref") and not isinstance(node, LiteralNode)
        for key, node in entry.params.entries
    )
    return None if computed else Need(credential_of(entry, params), entry.pos)


def _literals(node: Node) -> object:
    if isinstance(node, Map):
        return {key: value.value for key, value in node.entries if isinstance(value, LiteralNode)}
    return node.value if isinstance(node, LiteralNode) else None


def _named(value: object) -> Iterator[str]:
    """Yield the credentials in parameters: ``auth: name``, or ``credential: name`` below it."""
    if isinstance(value, LiteralNode):
        yield from _named(value.value)
    entries = value.entries if isinstance(value, Map) else value.items() if isinstance(value, Mapping) else ()
    for key, entry in entries:
        plain = entry.value if isinstance(entry, LiteralNode) else entry
        if key in NAMING and isinstance(plain, str):
            yield plain
        else:
            yield from _named(entry)


def _paths(params: Node, pos: Pos) -> Iterator[Need]:
    given = dict(params.entries) if isinstance(params, Map) else {}
    if isinstance(params, LiteralNode) and isinstance(params.value, dict):
        given = {key: LiteralNode(value) for key, value in params.value.items()}
    path, version = given.get("path"), given.get("version")
    number = version.value if isinstance(version, LiteralNode) and isinstance(version.value, int) else None
    if isinstance(path, LiteralNode) and isinstance(path.value, str):
        yield Need(path.value, pos, version=number)
    elif isinstance(path, (Text, Expr)):
        source = path.source if isinstance(path, Text) else f"{{{{ {path.source} }}}}"
        yield Need(source, pos, parts=_known_parts(source))


def _known_parts(source: str) -> tuple[str, ...]:
    """Return what is around the templates of a text."""
    places = [place for one in templates_in(source) for place in one]
    cuts = [0, *places, len(source)]
    return tuple(source[cuts[place] : cuts[place + 1]] for place in range(0, len(cuts), 2))


class Present(msgspec.Struct, frozen=True):
    """The credentials and playbooks that a place has.

    ``playbooks``: their latest versions by path. ``credentials``: (names) → those of them that it knows, and names to suggest.
    """

    playbooks: Mapping[str, int]
    credentials: Callable[[Collection[str]], Collection[str]]
    suggested: Collection[str] = ()


_PAGE = 500


def every_playbook(catalog: Catalog) -> dict[str, int]:
    """Latest versions by path."""
    found: dict[str, int] = {}
    after = ""
    while page := catalog.entries(limit=_PAGE, after=after):
        found |= {entry.path: entry.version for entry in page}
        after = page[-1].path
    return found


def missing(needs: Needs, present: Present) -> list[Diagnostic]:
    """Say what a place lacks, as problems of the playbook."""
    names = {need.name for need in needs.credentials}
    known = set(present.credentials(names)) if names else set()
    found = [_no_credential(need, present) for need in needs.credentials if need.name not in known]
    for need in needs.playbooks:
        found += _no_playbook(need, present.playbooks)
    return sorted(found, key=lambda one: (one.line, one.column))


def _no_credential(need: Need, present: Present) -> Diagnostic:
    return Diagnostic(
        "credential-missing",
        f"there is no credential {need.name!r}",
        need.pos.line,
        need.pos.column,
        hint=did_you_mean(
            need.name,
            present.suggested,
            f"keep it: noetl credential add {need.name} --type TYPE --data-file FILE",
        ),
    )


def _no_playbook(need: Need, playbooks: Mapping[str, int]) -> Iterator[Diagnostic]:
    line, column = need.pos.line, need.pos.column
    if need.parts:
        if not any(fits(need.parts, path, gap=1) for path in playbooks):
            yield Diagnostic(
                "playbook-missing",
                f"no registered playbook has a path like {need.name!r}",
                line,
                column,
                hint="register the playbooks that it can name: noetl register FILE",
                severity="warning",
            )
    elif need.name not in playbooks:
        hint = did_you_mean(need.name, playbooks, "register it: noetl register FILE")
        yield Diagnostic(
            "playbook-missing", f"there is no registered playbook {need.name!r}", line, column, hint=hint
        )
    elif need.version is not None and not 1 <= need.version <= playbooks[need.name]:
        yield Diagnostic(
            "playbook-missing",
            f"the playbook {need.name!r} has no version {need.version}",
            line,
            column,
            hint=f"its latest version is {playbooks[need.name]}",
        )
