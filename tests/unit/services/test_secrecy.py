"""Taking secrets out: every way they are usually written in, in time that grows with the text alone."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from noetl.domain.kinds import Credential
from noetl.dsl.program import Program
from noetl.services.secrecy import MASK, Secrets

SECRET = 'pä"ss/w+o\\rd=%& 1'
PROGRAM = Program(v=1, semantics=1, hash="", name="", path="")


class Source:
    def __init__(self, **data: Any) -> None:
        self.data = data

    def get(self, name: str, execution_id: int) -> Credential:
        return Credential(name, "generic", self.data)


def secrets(**data: Any) -> Secrets:
    found = Secrets(Source(**data), 1, PROGRAM)
    found.credential("c")
    return found


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps({"body": json.dumps({"deep": SECRET})}),
        json.dumps({"x": SECRET}, ensure_ascii=False),
        quote(SECRET, safe=""),
        quote(SECRET),
        quote_plus(SECRET),
        quote(SECRET, safe="!'()*"),
        quote(quote(SECRET, safe=""), safe=""),
        quote(SECRET, safe="").lower(),
        quote(json.dumps({"x": SECRET})),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"me:{SECRET}".encode()).decode(),
        base64.urlsafe_b64encode(f"ab{SECRET}yz".encode()).decode(),
    ],
)
def test_a_secret_is_found_however_it_is_written(written):
    value = {"a": [1, {"b": f"before {written} after", written: 2}], "c": True}
    shown = json.dumps(secrets(password=SECRET, host="before").redact(value))
    assert MASK in shown and "ss/w" not in shown and "before" in shown and "after" in shown
    core = base64.b64encode(SECRET.encode()).decode()[4:12]
    assert core not in shown and "%22ss" not in shown.lower() and "2522ss" not in shown


def test_what_holds_no_secret_stays_the_same_object():
    value = {"a": ["password", "host", {"b": 1}]}
    assert secrets(password=SECRET).redact(value) is value


@pytest.mark.parametrize("kind", ["none", "many", "almost", "keys"])
def test_the_time_grows_with_the_text(kind):
    """5 MB of the worst there is: nothing to find, the secret everywhere, all but its last character everywhere, many short texts."""
    found = secrets(password="a" * 39 + "b", other=SECRET, token="x" * 40 + "y")
    pieces = {"none": "lorem ipsum ", "many": "a" * 39 + "b ", "almost": "a" * 39 + "x" * 40, "keys": "word "}

    def seconds(size: int) -> float:
        text = pieces[kind] * (size // len(pieces[kind]))
        value: Any = {"rows": text.split()} if kind == "keys" else {"text": text}
        best = 1e9
        for _ in range(3):
            began = time.process_time()
            found.redact(value)
            best = min(best, time.process_time() - began)
        return best

    small, large = seconds(1_250_000), seconds(5_000_000)
    assert large < 6.0 and large < max(12 * small, 0.5), (small, large)
