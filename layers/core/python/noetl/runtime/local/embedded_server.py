"""The start of a home folder's embedded Postgres, while its users' modules are loaded."""

from __future__ import annotations

from collections.abc import Callable

from noetl.adapters.embedded.server import EmbeddedServer, open_embedded
from noetl.runtime.settings import Settings


def own_server(settings: Settings, meanwhile: Callable[[], object] = lambda: None) -> EmbeddedServer:
    """Open the embedded server of the home folder.

    ``meanwhile`` is called once, while it starts. Raises InfrastructureError.
    """
    settings.make_home()
    return open_embedded(settings.home / "postgres", meanwhile=meanwhile)
