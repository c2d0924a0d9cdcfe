"""Rewriting of playbooks of older dialects over the API.

It stores nothing.
"""

from __future__ import annotations

from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, parse
from noetl.api.http.bodies import (
    MigrateBody,
    MigratedAnswer,
    PlaybookChange,
    PlaybookDiagnostic,
    PlaybookNote,
    PlaybookRefusal,
)
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import diagnostic
from noetl.api.http.route import Route
from noetl.api.nouns.playbook_checks import text_and_name
from noetl.domain import codec
from noetl.services.catalog.migrate_playbook import migrate_playbook


def migrate(deps: ApiDeps, request: Request) -> Answer:
    """200 as well for a playbook that no rule makes run: ``runs`` is false then."""
    text, name = text_and_name(parse.body(request, deps, MigrateBody))
    made = migrate_playbook(text, source_name=name)
    answer = MigratedAnswer(
        made.text,
        made.changed,
        made.runs,
        made.proved,
        [PlaybookChange(one.rule, one.line, one.before, one.after) for one in made.changes],
        [PlaybookNote(one.rule, one.line, one.text) for one in made.notes],
        [PlaybookRefusal(one.rule, one.line, one.column, one.message, one.hint) for one in made.refusals],
        [codec.convert(diagnostic(one, name), PlaybookDiagnostic) for one in made.problems],
    )
    return Answer(200, answer)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/catalog/migrate",
        "migratePlaybook",
        "Rewrite a playbook of an older dialect to what runs today, with each change explained. Nothing is stored.",
        "read",
        migrate,
        {200: bodies.MigratedAnswer},
        "catalog",
        body=bodies.MigrateBody,
        refuses=(429,),
    ),
)
