"""What servers say when they refuse: their texts neither steer a terminal nor pass for lines of this machine."""

from __future__ import annotations

import json

from noetl.cli.client.http_problems import error_of
from noetl.domain.text.untrusted_text import escape_block
from noetl.dsl.diagnostics import InvalidPlaybookError

HOSTILE = "a\x1b[2Jb\u202ec\u2028d\x9b2J\ud800\rf"


def refused(**fields: object) -> str:
    """What is left of a refusal with these fields."""
    error = error_of(422, json.dumps(fields).encode(), context="here")
    return "\n".join([error.message, error.code, error.hint or ""])


def test_a_refusal_is_written_out_as_every_text_of_others_is():
    found = refused(detail=f"first\n{HOSTILE}", code=f"{HOSTILE}\nx", hint=HOSTILE)
    shown = escape_block(HOSTILE)
    assert found == f"first\n{shown}\n{shown}\\nx\n{shown}"


def test_a_finding_stays_one_line():
    said = f"{HOSTILE}\nplaybook.yaml: valid"
    body = {"errors": [{"code": said, "message": said, "fix": said, "path": said, "line": 1, "column": 1}]}
    error = error_of(422, json.dumps(body).encode(), context="here")
    assert isinstance(error, InvalidPlaybookError)
    assert "\n" not in str(error)
    assert escape_block(str(error)) == str(error)
