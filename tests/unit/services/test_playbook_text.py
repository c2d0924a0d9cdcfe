"""The text of a playbook as clients send it: YAML, JSON or base64 of either."""

from __future__ import annotations

import base64

import pytest

from noetl.services.catalog.register_playbook import playbook_text


def test_base64_is_told_apart_in_linear_time():
    """Megabytes of spaces were tried in every division between what base64 may hold and what may follow it."""
    text = " " * 3_000_000 + "!"
    assert playbook_text(text) == text


@pytest.mark.parametrize("ending", ["", "\n", "  \r\n\n"])
def test_base64_may_be_broken_into_lines(ending):
    assert (
        playbook_text(base64.encodebytes(b"kind: Playbook\n" * 9).decode() + ending) == "kind: Playbook\n" * 9
    )
