"""Keychains."""

from __future__ import annotations

from noetl.api.endpoints import keychain
from noetl.api.endpoints.keychain import KeychainAnswer
from noetl.api.routes.shape import Route

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/keychain/{owner}/{name+}",
        "getKeychainEntry",
        "A credential as tasks get it, by the name of a keychain's entry or by its own. `owner`: an execution, or a playbook "
        "(`path@version`). The scope worker is not needed by whoever shows the token of an open command (`Noetl-Command`), and gets what "
        "its playbook names.",
        "worker",
        keychain.get,
        {200: KeychainAnswer},
        "credentials",
        for_commands=True,
    ),
)
