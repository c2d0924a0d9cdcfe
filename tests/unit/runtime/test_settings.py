"""Settings that cannot be used are told by name, without what they may hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.runtime.settings import Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NOETL_DATABASE_URL", "mysql://ada:canary@db/engine"),
        ("NOETL_DATABASE_URL", "canary"),
        ("NOETL_DATABASE_URL", "postgresql://ada:canary@[::1/x"),
        ("NOETL_INLINE_LIMIT", "255"),
        ("NOETL_IO_WORKERS", "0"),
        ("NOETL_LEASE_SECONDS", "soon"),
    ],
)
def test_a_value_that_cannot_be_understood(name, value):
    with pytest.raises(InvalidInputError, match=name) as refused:
        Settings.from_env({name: value})
    assert refused.value.code == "setting_invalid"
    assert "canary" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_an_address_is_taken_as_it_stands():
    for url in ("postgresql://ada:x@db:5433/engine?sslmode=require", "host=/tmp dbname=x", "postgres://"):
        assert Settings.from_env({"NOETL_DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize("home", ["file", "file/below", "/proc/none"])
def test_a_home_that_cannot_be(home, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="cannot be used") as refused:
        Settings(home=Path(tmp_path, home)).make_home()
    assert refused.value.code == "home_unusable"
    assert "NOETL_HOME" in (refused.value.hint or "")
