"""Where a worker finds its server."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.cli.commands.worker import _server_options
from noetl.domain.errors import InvalidInputError


def test_the_environment_says_where_the_server_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("t")
    monkeypatch.setenv("NOETL_SERVER_URL", "http://127.0.0.1:9")
    assert _server_options(None, None, tmp_path, False, None).server == "http://127.0.0.1:9"
    assert _server_options("http://127.0.0.1:8", None, tmp_path, False, None).server == "http://127.0.0.1:8"
    monkeypatch.delenv("NOETL_SERVER_URL")
    with pytest.raises(InvalidInputError, match="whose commands"):
        _server_options(None, None, tmp_path, False, None)
