"""The formatter keeps what a playbook says, and every comment; twice is as good as once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.domain.errors import PlaybookError
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import Diagnostics, InvalidPlaybookError
from noetl.dsl.yaml_text.loader import load
from noetl.formatting.format import format_text
from noetl.formatting.writing import WIDTH
from noetl.kinds.registry import default_registry
from tests.parts import over, parted, sampled

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```yaml\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
PLACES = frozenset({"pos", "code_pos", "code_lines", "hash"})
SHOW = (ROOT / "playbooks/examples/seattle_weather/seattle_weather.yaml").read_text()


def texts() -> dict[str, str]:
    """Every playbook there is: cases, examples, and those of the language's pages."""
    found = {
        str(file.relative_to(ROOT)): file.read_text()
        for folder in ("playbooks/conformance", "playbooks/examples")
        for file in sorted((ROOT / folder).rglob("*.yaml"))
    }
    for page in [ROOT / "docs/dsl.md", *sorted((ROOT / "docs/dsl").glob("*.md"))]:
        found |= {f"{page.name}+{place}": text for place, text in enumerate(BLOCK.findall(page.read_text()))}
    return {name: text for name, text in found.items() if text.lstrip().startswith("apiVersion")}


TEXTS = texts()
CASES = "playbooks/conformance/"
GATE = [name for name in TEXTS if not name.startswith(CASES)] + [
    CASES + name for name in sampled(name.removeprefix(CASES) for name in TEXTS if name.startswith(CASES))
]


def meaning(text: str) -> Any:
    """What a playbook compiles to, without the places in its text."""
    return without_places(msgspec.to_builtins(compile_playbook(text, kinds=default_registry()).program))


def without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_places(item) for key, item in value.items() if key not in PLACES}
    return [without_places(item) for item in value] if isinstance(value, (list, tuple)) else value


def formatted(text: str) -> str:
    return format_text(text, source_name="p.yaml").text


@pytest.mark.parametrize("name", parted(TEXTS, GATE))
def test_the_program_stays_the_same(name: str) -> None:
    text = TEXTS[name]
    made = formatted(text)
    assert meaning(made) == meaning(text)
    assert formatted(made) == made
    assert made.endswith("\n") and not made.endswith("\n\n")


@pytest.mark.parametrize("indent", parted([0, 2, 6], [2]))
def test_a_comment_anywhere_survives(indent: int) -> None:
    """A comment above every line, and at the end of every line, wherever YAML allows one."""
    plain = load(SHOW, Diagnostics()).plain()  # type: ignore[union-attr]
    lines = SHOW.split("\n")
    tried = 0
    for place, line in enumerate(lines[::3]):
        at, column = place * 3, len(line) - len(line.lstrip()) + indent
        for with_comment in (
            [*lines[:at], " " * column + "# here", *lines[at:]],
            [*lines[:at], line + "  # here", *lines[at + 1 :]],
        ):
            text = "\n".join(with_comment)
            tree = load(text, Diagnostics())
            if tree is None or tree.plain() != plain:
                continue
            tried += 1
            made = formatted(text)
            assert made.count("# here") == 1, text
            assert formatted(made) == made, text
    assert tried > 50


MESSY = """\
# What this is for

# who keeps it
metadata: {path: a/b,   name: messy}   # names
kind:   Playbook
apiVersion: noetl.io/v2

# settings
workload:
    # the city
    city:    "Lima"   # default
    note: plain text
    # below the settings
workflow:
# first
-   tool:
        # where
        url: http://api.test/{{ workload.city }}
        kind: http
        # how
        json: { a: 1, b: [1,2,
                          3] }
    # name it
    step: start
    next:
        - end   # over

- {tool: {kind: python, code: "x = 1\\nresult = x\\n"}, step: end}
# the end
"""
NEAT = """\
apiVersion: noetl.io/v2
kind: Playbook
# What this is for

# who keeps it
metadata: { name: messy, path: a/b }  # names

# settings
workload:
  # the city
  city: "Lima"  # default
  note: plain text
  # below the settings
workflow:
  # first
  # name it
  - step: start
    tool:
      kind: http
      # where
      url: "http://api.test/{{ workload.city }}"
      # how
      json: { a: 1, b: [1, 2, 3] }
    next:
      - end  # over

  - step: end
    tool:
      kind: python
      code: |
        x = 1
        result = x

# the end
"""


def test_the_layout() -> None:
    assert formatted(MESSY) == NEAT


@over(
    ("value", "shown"),
    [
        ("{ a: 1 }", "{ a: 1 }"),
        ("{a: [ ], b: { }}", "{ a: [], b: {} }"),
        ("'{{ x }}'", '"{{ x }}"'),
        ("""'{{ x["y"] }}'""", """'{{ x["y"] }}'"""),
        ("{ a: \"1, 2\", 'b c': x }", "{ a: \"1, 2\", 'b c': x }"),
        ("007", "007"),
        ("on", "on"),
        ("! 12", "! 12"),
        ("", ""),
        ("~", "~"),
        ("&a { x: 1 }", "&a { x: 1 }"),
        ('"a\\u2028b"', '"a\\u2028b"'),
        ("[ {a: 1}, {b: 2} ]", "[{ a: 1 }, { b: 2 }]"),
    ],
)
def test_values(value: str, shown: str) -> None:
    text = f"apiVersion: noetl.io/v2\nworkload:\n  key: {value}\n"
    assert formatted(text) == f"apiVersion: noetl.io/v2\nworkload:\n  key: {shown}".rstrip() + "\n"


@over(
    "block",
    [
        "|\n    a\n\n      b\n",
        "|-\n    a\n    b\n",
        "|+\n    a\n\n\n",
        "|2\n      indented first\n    then\n",
        ">\n    folded\n    text\n\n    more\n",
        ">-\n    folded\n      deeper\n    back\n",
        '"two\\nlines\\n"',
        '"trailing space \\nkept"',
        '"  starts with spaces\\nhere"',
        '"\\n\\nstarts with lines"',
        '"tab\\there\\nand there"',
        '"\\n"',
        "'it''s\n\n    quoted'",
        "plain\n    over lines",
    ],
)
def test_long_texts_keep_their_value(block: str) -> None:
    text = f"apiVersion: noetl.io/v2\nworkload:\n  key: {block}\n  after: 1\n"
    before, made = load(text, Diagnostics()), formatted(text)
    after = load(made, Diagnostics())
    assert before is not None and after is not None
    assert after.plain() == before.plain()
    assert formatted(made) == made


def test_what_does_not_fit_on_a_line_becomes_a_block() -> None:
    long = ", ".join(f"key{n}: value" for n in range(12))
    made = formatted(f"apiVersion: noetl.io/v2\nworkload: {{ {long} }}\n")
    assert made.count("\n") == 14
    assert max(len(line) for line in made.split("\n")) <= WIDTH


def test_unknown_keys_and_writes_keep_their_order() -> None:
    text = "apiVersion: noetl.io/v2\nworkflow:\n  - next: b\n    strange: 1\n    step: a\n    set: { ctx.b: 1, ctx.a: 2 }\n"
    made = formatted(text)
    assert [line.strip(" -").split(":")[0] for line in made.split("\n")[2:6]] == [
        "step",
        "strange",
        "set",
        "next",
    ]
    assert "{ ctx.b: 1, ctx.a: 2 }" in made


def test_a_schedule_says_when_before_what_and_what_if() -> None:
    keys = ["name", "cron", "timezone", "payload", "enabled", "catch_up", "catch_up_max", "overlap"]
    lines = "".join(f"    {key}: x\n" for key in reversed(keys))
    made = formatted(f"apiVersion: noetl.io/v2\nmetadata:\n  schedule:\n{lines}")
    assert [line.split(":")[0].strip() for line in made.split("\n")[3:-1]] == keys


def test_a_document_with_anchors_keeps_its_order() -> None:
    text = "workload: &all { a: 1 }\napiVersion: noetl.io/v2\nmetadata:\n  labels: *all\n"
    assert formatted(text) == text


def test_marks_of_the_document_and_line_ends() -> None:
    assert formatted("\ufeff---\r\napiVersion: noetl.io/v2\r\n") == "---\napiVersion: noetl.io/v2\n"


@over("text", ["a: [", "a: {{ b }}", "- a\n", "", "a: 1\na: 2\n", "a: *b\n"])
def test_what_cannot_be_read_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InvalidPlaybookError) as refused:
        formatted(text)
    assert refused.value.diagnostics[0].line >= 1


def test_a_changed_value_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.formatting.format.write", lambda document: "apiVersion: other\n")
    with pytest.raises(PlaybookError, match="a value would change"):
        formatted("apiVersion: noetl.io/v2\n")
