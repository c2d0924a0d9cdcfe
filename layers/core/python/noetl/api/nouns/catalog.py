"""Playbooks: register, list, read.

The catalog of playbooks.
"""

from __future__ import annotations

from pathlib import PurePath

from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, parse
from noetl.api.http.bodies import (
    PlaybookAnswer,
    PlaybookDiagnostic,
    PlaybookLine,
    PlaybookPage,
    RegisterBody,
    RegisteredAnswer,
    ResourceBody,
    ResourceLine,
    ResourcePage,
    ResourcesBody,
    SchemaAnswer,
    catalog_id,
)
from noetl.api.http.exchange import JSON, Answer, Request
from noetl.api.http.problems import BadRequestError, diagnostic
from noetl.api.http.route import AFTER, VERSION, Parameter, Route, limit
from noetl.api.nouns.graphs import GraphAnswer, graph_views
from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.long_work import begin_long_work
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import SOURCE_NAME
from noetl.domain.text.timestamps import Timestamp
from noetl.dsl.editors.drawing import to_mermaid
from noetl.dsl.editors.graph import graph_of
from noetl.dsl.nodes import as_written
from noetl.ports.catalog import CatalogEntry
from noetl.services.catalog.find_playbook import check_path, find_named, find_playbook
from noetl.services.catalog.playbook_relations import RelationDeps, Relations, read_relations
from noetl.services.catalog.register_playbook import playbook_text, register_playbook
from noetl.services.credentials.credentials import list_credentials

UNNAMED = "playbook.yaml"
_PAGE, _MOST = 100, 500
_LONG = 16 * 1024
"""Characters of a playbook that takes long to compile."""


def register(deps: ApiDeps, request: Request) -> Answer:
    """201 for a new version, 200 when the playbook has it already."""
    done = register_body(deps, _register_body(deps, request))
    return Answer(201 if done.created else 200, done)


def register_body(deps: ApiDeps, body: RegisterBody) -> RegisteredAnswer:
    """Register one playbook. Raises InvalidPlaybookError with every diagnostic."""
    text = playbook_text(body.content)
    if len(text) > _LONG:
        begin_long_work()
    done = register_playbook(
        text,
        source_name=name_of_file(body.source_name),
        path=body.path,
        if_version=body.if_version,
        catalog=deps.catalog,
        compile=deps.compile,
        keep=deps.keep,
    )
    entry = done.entry
    deps.registered(done.program, entry.path, entry.version)
    warnings = [
        codec.convert(diagnostic(one, entry.source_name), PlaybookDiagnostic) for one in done.warnings
    ]
    return RegisteredAnswer(
        entry.path, entry.version, entry.name, entry.program, catalog_id(entry), done.created, warnings
    )


def name_of_file(named: str | None) -> str:
    """Return the name that diagnostics print: of an absolute path its last part.

    An absolute path would say that the file lies on this machine, and tasks may read the folder of such a file (``folder_of``). Only the
    command line of this machine registers those. Raises InvalidInputError(code="invalid_source_name") for a long one: each of many
    diagnostics repeats it.
    """
    shown = named or UNNAMED
    check_text(SOURCE_NAME, shown, "`source_name`", code="invalid_source_name")
    path = PurePath(shown)
    return (path.name or UNNAMED) if path.is_absolute() else shown


def _register_body(deps: ApiDeps, request: Request) -> RegisterBody:
    """Read a body: JSON with ``content``, or the playbook itself (in YAML or JSON)."""
    data = parse.sized_body(request, deps)
    is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
    if is_json or data.lstrip()[:1] == b"{":
        found = _mapping(data)
        if "content" in found or (is_json and not found.keys() & {"apiVersion", "workflow"}):
            return parse.body(request, deps, RegisterBody)
    text = playbook_text(data)
    return RegisterBody(
        text,
        request.query.get("path"),
        request.query.get("source_name"),
        if_version=parse.maybe_number(request, "if_version"),
    )


def _mapping(data: bytes) -> dict[str, object]:
    """Empty for what is not a JSON mapping."""
    try:
        found = codec.decode(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def list_playbooks(deps: ApiDeps, request: Request) -> Answer:
    limit = parse.limit(request, _PAGE, _MOST)
    found = deps.catalog.entries(limit=limit, after=parse.text_cursor(request))
    more = parse.cursor_text(found[-1].path) if len(found) == limit else None
    return Answer(200, PlaybookPage([PlaybookLine.of(entry) for entry in found], more))


def list_resources(deps: ApiDeps, request: Request) -> Answer:
    """The published spelling of the lists: playbooks, or credentials without their data."""
    body = parse.body(request, deps, ResourcesBody) if request.body else ResourcesBody()
    limit, after = parse.limit(request, _PAGE, _MOST), parse.text_cursor(request)
    kind = body.resource_type.lower()
    if kind == "credential":
        kept = list_credentials(deps.credentials, limit=limit, after=after)
        more = parse.cursor_text(kept[-1].name) if len(kept) == limit else None
        lines = [
            ResourceLine(one.name, one.name, "credential", one.version, one.created_at, one.id, one.type)
            for one in kept
        ]
        return Answer(200, ResourcePage(lines, [], more))
    if kind != "playbook":
        raise InvalidInputError(
            f"{body.resource_type[:60]!r} is not a type of a resource here",
            code="body_invalid",
            hint="playbook or credential",
        )
    found = deps.catalog.entries(limit=limit, after=after)
    more = parse.cursor_text(found[-1].path) if len(found) == limit else None
    lines = [
        ResourceLine(one.path, one.name, "playbook", one.version, Timestamp(one.created_at), catalog_id(one))
        for one in found
    ]
    return Answer(200, ResourcePage(lines, [PlaybookLine.of(entry) for entry in found], more))


def list_versions(deps: ApiDeps, request: Request) -> Answer:
    """Newest first."""
    path, limit = check_path(request.params["path"]), parse.limit(request, _PAGE, _MOST)
    after = parse.after(request)
    before = parse.whole_number(after) if after is not None else None
    if after is not None and not before:
        raise parse.bad_cursor(after)
    found = deps.catalog.versions(path, limit=limit, before=before)
    if not found:
        find_playbook(deps.catalog, path)
    more = str(found[-1].version) if len(found) == limit and found[-1].version > 1 else None
    return Answer(200, PlaybookPage([PlaybookLine.of(entry) for entry in found], more))


def get_graph(deps: ApiDeps, request: Request) -> Answer:
    form = request.query.get("format", "mermaid")
    if form not in ("mermaid", "json"):
        raise BadRequestError(f"format={form[:40]!r} is neither mermaid nor json", code="invalid_parameter")
    entry = _entry(deps, request)
    program = deps.programs(entry.program)
    if form == "mermaid":
        return Answer(200, GraphAnswer(entry.path, entry.version, "mermaid", to_mermaid(program)))
    graph = graph_of(program)
    nodes, edges = graph_views(graph)
    return Answer(
        200, GraphAnswer(entry.path, entry.version, "json", "", graph.entry, graph.final, nodes, edges)
    )


def get_schema(deps: ApiDeps, request: Request) -> Answer:
    """What a payload has to fit: the playbook's ``input``, or anything that is a mapping."""
    entry = _entry(deps, request)
    program = deps.programs(entry.program)
    schema, workload = program.input_schema or {"type": "object"}, as_written(program.workload)
    return Answer(
        200,
        SchemaAnswer(entry.path, entry.version, schema, workload if isinstance(workload, dict) else {}),
    )


def get_relations(deps: ApiDeps, request: Request) -> Answer:
    """What a version calls, and what calls and starts the playbook."""
    needed = RelationDeps(deps.catalog, deps.programs, deps.schedules.store, deps.triggers.store)
    return Answer(200, read_relations(needed, _entry(deps, request)))


def _entry(deps: ApiDeps, request: Request) -> CatalogEntry:
    version = parse.version(request.query.get("version"))
    return find_playbook(deps.catalog, check_path(request.params["path"]), version)


def get_playbook(deps: ApiDeps, request: Request) -> Answer:
    return _playbook(_entry(deps, request))


def find_resource(deps: ApiDeps, request: Request) -> Answer:
    """The published spelling of reading a playbook: its path and version in a body."""
    body = parse.body(request, deps, ResourceBody)
    found = find_named(deps.catalog, body.path, parse.version(body.version))
    return _playbook(find_playbook(deps.catalog, found.path, found.version))


def _playbook(entry: CatalogEntry) -> Answer:
    answer = PlaybookAnswer(
        entry.path,
        entry.version,
        entry.name,
        entry.program,
        catalog_id(entry),
        Timestamp(entry.created_at),
        entry.content,
    )
    return Answer(200, answer)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/catalog/register",
        "registerPlaybook",
        "Register a playbook. A new version is made only when its content changed; an invalid one is refused with every diagnostic.",
        "write",
        register,
        {201: bodies.RegisteredAnswer, 200: bodies.RegisteredAnswer},
        "catalog",
        query=(
            Parameter("path", "For a body that is YAML: the path instead of the one it names."),
            Parameter("source_name", "For a body that is YAML: the file name that diagnostics print."),
            Parameter(
                "if_version",
                "For a body that is YAML: the latest version that the caller knows (0: none); with another one it is refused.",
                {"type": "integer", "minimum": 0},
            ),
        ),
        body=bodies.RegisterBody,
        logged=True,
        refuses=(409, 429),
        yaml=True,
    ),
    Route(
        "GET",
        "/api/catalog",
        "listPlaybooks",
        "The latest version of every registered playbook.",
        "read",
        list_playbooks,
        {200: bodies.PlaybookPage},
        "catalog",
        query=(AFTER, limit(100, 500)),
    ),
    Route(
        "GET",
        "/api/catalog/{path+}",
        "getPlaybook",
        "A registered playbook with its text.",
        "read",
        get_playbook,
        {200: bodies.PlaybookAnswer},
        "catalog",
        query=(VERSION,),
    ),
    Route(
        "GET",
        "/api/catalog/{path+}/versions",
        "listPlaybookVersions",
        "The versions of a playbook, newest first.",
        "read",
        list_versions,
        {200: bodies.PlaybookPage},
        "catalog",
        query=(AFTER, limit(100, 500)),
    ),
    Route(
        "GET",
        "/api/catalog/{path+}/graph",
        "getPlaybookGraph",
        "A playbook as a Mermaid flowchart, or as nodes and edges with their lines.",
        "read",
        get_graph,
        {200: GraphAnswer},
        "catalog",
        query=(
            VERSION,
            Parameter(
                "format",
                "How it is drawn.",
                {"type": "string", "enum": ["mermaid", "json"], "default": "mermaid"},
            ),
        ),
    ),
    Route(
        "GET",
        "/api/catalog/{path+}/schema",
        "getPlaybookSchema",
        "The JSON Schema that a payload of the playbook is held against.",
        "read",
        get_schema,
        {200: bodies.SchemaAnswer},
        "catalog",
        query=(VERSION,),
    ),
    Route(
        "GET",
        "/api/catalog/{path+}/relations",
        "getPlaybookRelations",
        "What a playbook calls, which latest versions call it, and the schedules and triggers that start it.",
        "read",
        get_relations,
        {200: Relations},
        "catalog",
        query=(VERSION,),
    ),
    Route(
        "POST",
        "/api/catalog/list",
        "findPlaybooks",
        "The published spelling of GET /api/catalog, and of GET /api/credentials: `resource_type`.",
        "read",
        list_resources,
        {200: bodies.ResourcePage},
        "catalog",
        query=(AFTER, limit(100, 500)),
        body=ResourcesBody,
        bodiless=True,
    ),
    Route(
        "POST",
        "/api/catalog/resource",
        "findPlaybook",
        "The published spelling of GET /api/catalog/{path}.",
        "read",
        find_resource,
        {200: bodies.PlaybookAnswer},
        "catalog",
        body=bodies.ResourceBody,
    ),
)
