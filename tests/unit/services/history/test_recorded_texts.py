"""Texts of a recorded test: whatever an execution has recorded, the file says the same when it is read."""

from __future__ import annotations

from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.yaml_text.loader import load
from noetl.services.history.recorded_test import written
from tests.parts import over

TEXTS = (
    *(
        "1e5",
        "1E+5",
        "12e4567",
        "1.e5",
        "+.5",
        "-.5e3",
        "0o7",
        "0o17",
        "0x1F",
        "1_000",
        "7",
        "-0",
        ".inf",
        ".NaN",
    ),
    *(
        "null",
        "~",
        "yes",
        "NO",
        "on",
        "true",
        "=",
        "<<",
        "2026-03-01",
        "12:30:45",
        "",
        " ",
        "\n",
        "\n a",
        "a \n",
    ),
    *(
        "\x85",
        "\u2028",
        "a\u2029\nb",
        "\ufeff",
        "a\nb\x85c",
        "\x00\x07\x1b[2J\x7f\x9b",
        "\r\n",
        "\u202eabc",
        "\t",
    ),
    *(
        "---",
        "...",
        "\n---\ncases: []",
        "\n...\n",
        "a: b",
        "- x",
        "# c",
        "!!python/object:os.system",
        "&a b",
        "*a",
    ),
    *(
        "{{ payload }}",
        "{% raw %}",
        "x'\"`$(id)",
        "expect:\n  status: failed\n",
        "|+\n",
        "%YAML 1.1",
        "x" * 300,
    ),
)


@over("text", TEXTS)
def test_a_text_stays_what_it_is(text):
    document = {"cases": [{"name": text, "tools": {"a": {"result": [text, {"k": text}]}}}]}
    found = Diagnostics()
    tree = load(written(document), found)
    assert tree is not None and tree.plain() == document


def test_numbers_stay_numbers():
    document = {"cases": [{"v": [1, -1, 1.5, 1e300, 10**30, True, None]}]}
    tree = load(written(document), Diagnostics())
    assert tree is not None and tree.plain() == document
