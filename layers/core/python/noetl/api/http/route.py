"""What a route is, and the query parameters that several share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl.api.deps import ApiDeps
from noetl.api.http.exchange import JSON, Answer, Request

Endpoint = Callable[[ApiDeps, Request], Answer]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter."""

    name: str
    about: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Route:
    """A route: method, path, scope, endpoint and documentation.

    ``path``: ``{name}`` is one segment, ``{name+}`` all the rest. ``scope`` None: open to everybody. ``endpoint`` None: answered without
    anything from outside. ``answers``: status → shape. ``yaml``: the body may be a playbook's text instead. ``keyed``: takes an
    Idempotency-Key.
    """

    method: str
    path: str
    name: str
    about: str
    scope: str | None
    endpoint: Endpoint | None
    answers: Mapping[int, Any]
    tag: str
    query: tuple[Parameter, ...] = ()
    body: Any = None
    yaml: bool = False
    keyed: bool = False
    media: str = JSON
    """What its answers are."""
    refuses: tuple[int, ...] = ()
    """Statuses of its refusals besides those that follow from its shape (see ``openapi``)."""
    any_body: bool = False
    """The body is anything; its endpoint looks at it."""
    takes: str = JSON
    """What its body is."""
    logged: bool = False
    """It changes what keeps no name of who changed it: the log has it."""
    any_query: bool = False
    """It takes any parameters; of others, those that ``query`` does not name are refused. Routes that are open to everybody refuse none."""
    of_command: bool = False
    """Its scope does not suffice: the token of a command has to be shown; the endpoint looks at the token."""
    bodiless: bool = False
    """Its body may be left out."""
    or_yaml: bool = False
    """Its body may be in YAML instead, with the same fields."""
    for_commands: bool = False
    """A caller that shows the token of a command needs no scope; the endpoint checks the token."""


def limit(default: int, most: int) -> Parameter:
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Parameter("limit", "Most entries of the page.", schema)


FLAG: Mapping[str, Any] = {"type": "boolean", "default": False}
AFTER = Parameter("after", "The `next` of the page before.")
VERSION = Parameter("version", "A version's number; the latest without it.")
ONE = "/api/executions/{execution_id}"
