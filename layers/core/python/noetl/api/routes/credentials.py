"""Credentials."""

from __future__ import annotations

from noetl.api import bodies
from noetl.api.endpoints import credentials
from noetl.api.routes.shape import AFTER, FLAG, Parameter, Route, limit
from noetl.services.manage_credentials import CredentialView, CredentialWish, Resealed

_ID = {"type": "string", "pattern": "^[0-9]+$"}
_ONE = "/api/credentials/{name+}"

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/credentials",
        "putCredential",
        "Keep a credential, or replace the one of this name. It is sealed before it is stored, and never shown in lists.",
        "admin",
        credentials.put,
        {201: CredentialView, 200: CredentialView},
        "credentials",
        body=CredentialWish,
        keyed=True,
    ),
    Route(
        "POST",
        "/api/credentials/reseal",
        "resealCredentials",
        "Seal every credential again: with a new key of this machine, or with the deployment's key as it is now.",
        "admin",
        credentials.reseal_all,
        {200: Resealed},
        "credentials",
    ),
    Route(
        "GET",
        "/api/access/credentials",
        "listCredentialAccesses",
        "Who kept, replaced, removed, sealed again or read which credential, newest first.",
        "admin",
        credentials.list_accesses,
        {200: bodies.CredentialAccessPage},
        "credentials",
        query=(
            AFTER,
            limit(100, 500),
            Parameter("name", "Only of this credential."),
            Parameter("execution_id", "Only of this execution.", _ID),
        ),
    ),
    Route(
        "GET",
        "/api/credentials",
        "listCredentials",
        "Credentials by name, without their data.",
        "read",
        credentials.list_all,
        {200: bodies.CredentialPage},
        "credentials",
        query=(AFTER, limit(100, 500), Parameter("type", "Only credentials of this type.")),
    ),
    Route(
        "GET",
        _ONE,
        "getCredential",
        "A credential by name or id. Its data is told to the scopes worker and admin alone, and only when it is asked for.",
        "read",
        credentials.get,
        {200: CredentialView},
        "credentials",
        query=(
            Parameter("include_data", "true: with the secret itself.", FLAG),
            Parameter("execution_id", "The execution it is for: the cached copy goes with it.", _ID),
            Parameter("parent_execution_id", "Its parent, for the record.", _ID),
        ),
    ),
    Route(
        "DELETE",
        _ONE,
        "deleteCredential",
        "Remove a credential with every cached copy of it.",
        "admin",
        credentials.delete,
        {200: bodies.CredentialDeletedAnswer},
        "credentials",
    ),
)
