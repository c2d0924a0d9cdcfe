"""The embedded server of a home folder, started before what uses it is loaded: the two go on beside each other."""

from __future__ import annotations

from collections.abc import Callable

from noetl.adapters.embedded.server import EmbeddedServer, open_embedded
from noetl.runtime.settings import Settings


def own_server(settings: Settings, meanwhile: Callable[[], object] = lambda: None) -> EmbeddedServer:
    """Open the embedded server of the home folder. ``meanwhile`` is called once, while it starts. Raises InfrastructureError."""
    settings.make_home()
    return open_embedded(settings.home / "postgres", meanwhile=meanwhile)
