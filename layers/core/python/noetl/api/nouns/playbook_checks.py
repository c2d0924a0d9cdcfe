"""Check and format a playbook that is being written, and serve its schema.

Nothing is stored.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, parse
from noetl.api.http.bodies import (
    FormatBody,
    FormattedAnswer,
    MigrateBody,
    PlaybookDiagnostic,
    ValidateBody,
)
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import diagnostic
from noetl.api.http.route import Route
from noetl.api.nouns.catalog import name_of_file
from noetl.api.nouns.graphs import DraftGraph, draft_graph
from noetl.domain import codec
from noetl.domain.long_work import begin_long_work
from noetl.dsl.editors.shapes import PlaybookNames
from noetl.services.catalog.check_playbook import (
    check_playbook,
    format_playbook,
    playbook_names,
    playbook_schema,
    quick_fixes,
)
from noetl.services.catalog.register_playbook import playbook_text

_LONG = 8 * 1024
"""Characters of a playbook that takes long to compile, to format or to migrate."""


class CheckedAnswer(msgspec.Struct, frozen=True):
    """What the compiler says of a playbook.

    ``valid``: it could be registered; ``path``, ``name`` and ``program`` (the compiled form's hash) are null otherwise. ``diagnostics``:
    errors and warnings, by their place. ``names``: where they were asked for and the text is a playbook, with or without errors.
    ``graph``: where it was asked for and the text compiles.
    """

    valid: bool
    path: str | None
    name: str | None
    program: str | None
    diagnostics: list[PlaybookDiagnostic]
    names: PlaybookNames | None = None
    graph: DraftGraph | None = None


def validate(deps: ApiDeps, request: Request) -> Answer:
    """200 as well for a playbook with errors: ``valid`` is false then."""
    body = parse.body(request, deps, ValidateBody)
    text, name = text_and_name(body)
    found = check_playbook(text, source_name=name, compile=deps.compile)
    diagnostics = [
        replace(codec.convert(diagnostic(one, name), PlaybookDiagnostic), edit=edit)
        for one, edit in zip(found.diagnostics, quick_fixes(text, found), strict=True)
    ]
    program = found.program
    answer = CheckedAnswer(
        program is not None,
        (program.path or program.name) if program else None,
        program.name if program else None,
        program.hash if program else None,
        diagnostics,
        playbook_names(text, deps.kinds()) if body.names else None,
        draft_graph(program) if program and body.graph else None,
    )
    return Answer(200, answer)


def write_formatted(deps: ApiDeps, request: Request) -> Answer:
    text, name = text_and_name(parse.body(request, deps, FormatBody))
    made = format_playbook(text, source_name=name)
    return Answer(200, FormattedAnswer(made, made != text))


def get_schema(deps: ApiDeps, request: Request) -> Answer:
    begin_long_work()
    return Answer(200, playbook_schema(deps.kinds()))


def text_and_name(body: ValidateBody | FormatBody | MigrateBody) -> tuple[str, str]:
    """Return the text of a playbook, and the name that diagnostics print.

    A long text is long work.
    """
    text, name = playbook_text(body.content), name_of_file(body.source_name)
    if len(text) > _LONG:
        begin_long_work()
    return text, name


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/schema/playbook",
        "getSchemaOfPlaybooks",
        "The JSON Schema of playbooks with the kinds of this place, as `noetl schema` prints it, for editors.",
        "read",
        get_schema,
        {200: dict[str, Any]},
        "catalog",
        refuses=(429,),
    ),
    Route(
        "POST",
        "/api/catalog/validate",
        "validatePlaybook",
        "Compile a playbook and list every error and warning with its place. Nothing is stored.",
        "read",
        validate,
        {200: CheckedAnswer},
        "catalog",
        body=bodies.ValidateBody,
        refuses=(429,),
    ),
    Route(
        "POST",
        "/api/catalog/format",
        "formatPlaybook",
        "Write a playbook in its layout, as `noetl fmt` does; its meaning stays the same. Nothing is stored.",
        "read",
        write_formatted,
        {200: bodies.FormattedAnswer},
        "catalog",
        body=bodies.FormatBody,
        refuses=(429,),
    ),
)
