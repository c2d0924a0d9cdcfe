"""Limits that the compiler holds playbooks against: one below and at each is compiled, one above is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.table import (
    CATCH_UP,
    DIAGNOSTICS,
    IDENTIFIER,
    INTEGER_DIGITS,
    LOCK_BYTES,
    LOCK_PINS,
    MODULES,
    MODULES_BYTES,
    NAME,
    PATH,
    PATTERN,
    PLAYBOOK_ALIASES,
    PLAYBOOK_BYTES,
    PLAYBOOK_DEPTH,
    PLAYBOOK_NAME,
    PLAYBOOK_VALUES,
    PRIORITY,
    REQUIREMENTS,
    SCHEDULE_NAME,
    SCHEMA_CHECKS,
    SCHEMA_DEPTH,
    SCHEMA_NESTING,
    SCHEMA_OPERATIONS,
    STEP_LIMITS,
    STEPS,
    TEMPLATE_BRACKETS,
    TEMPLATE_SOURCE,
    TEMPLATES,
    Size,
)
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.dsl.json_schema.check import misfits, schema_problem
from noetl.dsl.json_schema.effort import Effort, NestingExceededError
from noetl.dsl.lowering import context
from tests.parts import repeated

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
META = "metadata: {name: sizes}\n"
ONE = "workflow:\n  - step: start\n    tool: {kind: noop}\n"


def steps(count: int) -> str:
    lines = [HEAD + META + "workflow:"]
    for number in range(count):
        following = f", next: {{arcs: [{{step: s{number + 1}}}]}}" if number + 1 < count else ""
        lines.append(f"  - {{step: s{number}, tool: {{kind: noop}}{following}}}")
    return "\n".join(lines)


def values(count: int) -> str:
    text = HEAD + META + ONE + "workload:\n  a: [LIST]\n"
    return text.replace("LIST", ", ".join("1" for _ in range(count - counted(text.replace("LIST", "")))))


def counted(text: str) -> int:
    from noetl.dsl.diagnostics import Diagnostics
    from noetl.dsl.yaml_text.loader import load
    from noetl.dsl.yaml_text.tree import Mapping, Sequence

    def of(tree: object) -> int:
        if isinstance(tree, Mapping):
            return 1 + sum(1 + of(value) for _, value in tree.items())
        return 1 + sum(map(of, tree.items)) if isinstance(tree, Sequence) else 1

    return of(load(text, Diagnostics()))


def templates(count: int) -> str:
    entries = "".join(f"        k{number}: '{{{{ workload.a }}}}'\n" for number in range(count))
    step = "workflow:\n  - step: start\n    tool:\n      kind: noop\n      args:\n"
    return HEAD + META + "workload: {a: 1}\n" + step + entries


def modules(count: int, text: str = "") -> str:
    named = ", ".join(f"m{number}.py" for number in range(count))
    texts = "".join(f"m{number}.py: {json.dumps(text)}\n" for number in range(count))
    return f"{HEAD}{META}modules: [{named}]\n{ONE}--- # files of this version\n{texts}"


REQUIRED = "--- # files of this version\nrequirements.lock: "


def requirements(count: int) -> str:
    names = [f"p{number}" for number in range(count)]
    return f"{HEAD}{META}executor:\n  spec:\n    requirements: [{', '.join(names)}]\n{ONE}{REQUIRED}{json.dumps(lock(names, names))}\n"


def lock(required: list[str], pinned: list[str]) -> str:
    hashed = f"==1.0 --hash=sha256:{'0' * 64}\n"
    return (
        "# noetl lock 1\n"
        + "".join(f"# requires: {name}\n" for name in sorted(required))
        + "".join(name + hashed for name in pinned)
    )


def locked(text: str) -> str:
    return f"{HEAD}{META}executor:\n  spec:\n    requirements: [p0]\n{ONE}{REQUIRED}{json.dumps(text)}\n"


def limits(count: int) -> str:
    return (
        HEAD
        + META
        + ONE
        + "    spec:\n      limits:\n"
        + "".join(f"        - {{key: k{number}, concurrent: 1}}\n" for number in range(count))
    )


def labelled(count: int) -> str:
    return HEAD + META + f"workflow:\n  - step: start\n    tool:\n      - {'t' * count}: {{kind: noop}}\n"


def scheduled(count: int) -> str:
    schedule = f"  schedule: {{rate: 1 hour, payload: {{{'w' * count}: 1}}}}\n"
    return HEAD + "metadata:\n  name: x\n" + schedule + ONE


def aliases(count: int) -> str:
    return HEAD + META + f"workload:\n  a: &x 1\n  b: [{', '.join(['*x'] * count)}]\n" + ONE


def argument(text: str) -> str:
    return HEAD + META + ONE + f"    args:\n      a: '{text}'\n"


def conduct(entry: str) -> str:
    return HEAD + f"metadata:\n  name: x\n  schedule:\n    rate: 1 hour\n    {entry}\n" + ONE


def inside(levels: int) -> str:
    """A schema that applies to lists in lists; its innermost mapping is empty."""
    return "{items: " * (levels - 1) + "{}" + "}" * (levels - 1)


def applying(count: int) -> str:
    """A schema of which so many keywords apply to one value, most of them by references: few have to be read."""
    followed, others = divmod(count - 2, 101)
    entries = ["{$ref: '#/$defs/a'}"] * followed + ["true"] * others
    return (
        f"input:\n  allOf: [{', '.join(entries)}]\n  $defs: {{a: {{allOf: [{', '.join(['true'] * 99)}]}}}}\n"
    )


def waiting(levels: int) -> str:
    return HEAD + META + ONE.replace("kind: noop", f"kind: wait, callback: true, schema: {inside(levels)}")


CASES: dict[str, tuple[Size, str, Callable[[int], str], int]] = {
    "step": (IDENTIFIER, "name-too-long", lambda n: HEAD + META + ONE.replace("start", "s" * n), 5),
    "label": (IDENTIFIER, "name-too-long", labelled, 7),
    "iterator": (IDENTIFIER, "name-too-long", lambda n: HEAD + META + ONE + f"    loop: {{in: [1], iterator: {'i' * n}}}\n", 7),
    "keychain": (IDENTIFIER, "name-too-long", lambda n: HEAD + META + f"keychain:\n  - {{name: {'k' * n}, kind: generic}}\n" + ONE, 5),
    "ctx": (NAME, "name-too-long", lambda n: HEAD + META + ONE + f"    set_ctx:\n      {'c' * n}: 1\n", 8),
    "vars": (NAME, "name-too-long", lambda n: HEAD + META + ONE + f"    set:\n      vars.{'c' * n}: 1\n", 8),
    "workload": (NAME, "name-too-long", lambda n: HEAD + META + f"workload:\n  {'w' * n}: 1\n" + ONE, 5),
    "schedule": (NAME, "name-too-long", scheduled, 5),
    "name": (PLAYBOOK_NAME, "name-too-long", lambda n: HEAD + f"metadata:\n  name: {'n' * n}\n  path: a\n" + ONE, 4),
    "path": (PATH, "name-too-long", lambda n: HEAD + f"metadata:\n  name: a\n  path: {'n' * n}\n" + ONE, 5),
    "digits": (INTEGER_DIGITS, "yaml-number", lambda n: HEAD + META + f"workload:\n  a: -{'9' * n}\n" + ONE, 5),
    "bytes": (PLAYBOOK_BYTES, "yaml-too-large", lambda n: (text := HEAD + META + ONE) + "#" * (n - len(text)), 1),
    "depth": (PLAYBOOK_DEPTH, "yaml-too-deep", lambda n: HEAD + META + f"workload:\n  a: {'[' * (n - 2)}{']' * (n - 2)}\n" + ONE, 5),
    "aliases": (PLAYBOOK_ALIASES, "yaml-alias-limit", aliases, 6),
    "values": (PLAYBOOK_VALUES, "yaml-too-many-nodes", values, 8),
    "steps": (STEPS, "too-many-steps", steps, 5),
    "templates": (TEMPLATES, "too-many-templates", templates, 60),
    "priority": (PRIORITY, "out-of-range", lambda n: HEAD + META + f"executor:\n  spec:\n    priority: {n}\n" + ONE, 6),
    "schedule name": (SCHEDULE_NAME, "invalid-schedule-name", lambda n: conduct(f"name: {'s' * n}"), 7),
    "catch up": (CATCH_UP, "wrong-value", lambda n: conduct(f"catch_up_max: {n}"), 7),
    "template": (TEMPLATE_SOURCE, "template-limit", lambda n: argument("{{ 1 }}".ljust(n, ".")), 8),
    "brackets": (TEMPLATE_BRACKETS, "template-limit", lambda n: argument("{{ " + "(" * n + "1" + ")" * n + " }}"), 8),
    "pattern": (PATTERN, "input-schema", lambda n: HEAD + META + f"input:\n  pattern: {'a' * n}\n" + ONE, 5),
    "schema": (SCHEMA_CHECKS, "input-schema", lambda n: HEAD + META + applying(n) + ONE, 5),
    "depth of input": (SCHEMA_DEPTH, "input-schema", lambda n: HEAD + META + f"input: {inside(n)}\n" + ONE, 4),
    "depth of a callback": (SCHEMA_DEPTH, "kind-params", waiting, 6),
    "modules": (MODULES, "too-many-entries", modules, 4),
    "bytes of modules": (MODULES_BYTES, "modules-too-large", lambda n: modules(1, "#" * (n - 1) + "\n"), 4),
    "requirements": (REQUIREMENTS, "too-many-entries", requirements, 6),
    "bytes of a lock": (LOCK_BYTES, "lock-invalid", lambda n: locked((text := lock(["p0"], ["p0"])) + "#" * (n - len(text))), 6),
    "pins of a lock": (LOCK_PINS, "lock-invalid", lambda n: locked(lock(["p0"], [f"p{number}" for number in range(n)])), 6),
    "limits": (STEP_LIMITS, "too-many-entries", limits, 9),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_playbook_at_its_limit(case: str, kinds: object, monkeypatch: pytest.MonkeyPatch) -> None:
    size, code, make, line = CASES[case]
    most = size.value
    if size is TEMPLATES:
        most = 50  # ten thousand take their time
        monkeypatch.setattr(context, "MAX_TEMPLATES", most)
    fitting = repeated(gate=1, full=2)
    for below in range(most - fitting + 1, most + 1):
        compile_playbook(make(below), kinds=kinds)
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(make(most + 1), kinds=kinds)
    errors = [one for one in refused.value.diagnostics if one.severity == "error"]
    assert [(one.code, one.line) for one in errors] == [(code, line)], errors
    assert errors[0].column >= 1 and errors[0].hint


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_problems_are_listed_up_to_their_limit(over: int, kinds: object) -> None:
    count = DIAGNOSTICS.value + over
    unknown = "".join(f"x{number}: 1\n" for number in range(count))
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(HEAD + META + unknown + ONE, kinds=kinds)
    told = [one.code for one in refused.value.diagnostics]
    assert told == ["unknown-key"] * min(count, DIAGNOSTICS.value) + ["more-problems"] * (over > 0)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_the_lowest_priority(over: int, kinds: object) -> None:
    text = HEAD + META + f"executor:\n  spec:\n    priority: {-PRIORITY.value - over}\n" + ONE
    if over <= 0:
        compile_playbook(text, kinds=kinds)
        return
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(text, kinds=kinds)
    assert [(one.code, one.line) for one in refused.value.diagnostics] == [("out-of-range", 6)]


@pytest.mark.parametrize("text", ["0x" + "f" * 3999, "0o" + "7" * 4000, "9" * 5000, "-" + "9" * 4001])
def test_a_number_is_as_long_as_its_decimal_digits(text: str, kinds: object) -> None:
    """Of base 16, 3,999 digits are 4,816 decimal ones: more than Python writes."""
    playbook = HEAD + META + f"workload:\n  a: {text}\n" + ONE
    if text.startswith("0o"):
        compile_playbook(playbook, kinds=kinds)
        return
    with pytest.raises(InvalidPlaybookError, match="yaml-number"):
        compile_playbook(playbook, kinds=kinds)


@pytest.mark.parametrize("field", ["name", "path"])
def test_a_column_holds_no_nul(field: str, kinds: object) -> None:
    metadata = {"name": "x", "path": "y"} | {field: "a\\0b"}
    text = "metadata:\n" + "".join(f'  {key}: "{value}"\n' for key, value in metadata.items())
    with pytest.raises(InvalidPlaybookError, match="bad-name"):
        compile_playbook(HEAD + text + ONE, kinds=kinds)


def test_a_check_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One operation for each item, one for the keyword, and one more for sixteen items; a tenth of them, which takes a tenth as long."""
    lookup, whole = Effort.__init__.__defaults__ or ()
    assert whole == SCHEMA_OPERATIONS.value
    monkeypatch.setattr(Effort.__init__, "__defaults__", (lookup, whole // 10))
    schema, most = {"items": {}}, 94_117
    assert most + 1 + most // 16 == whole // 10
    assert misfits(schema, [0] * most) == []
    with pytest.raises(InvalidInputError) as refused:
        misfits(schema, [0] * (most + 1))
    assert refused.value.code == "schema_limit"
    assert refused.value.details == {"limit": "schema_operations", "most": SCHEMA_OPERATIONS.value}


def below(frames: int, do: Callable[[], object]) -> object:
    return below(frames - 1, do) if frames else do()


SELF = {
    "properties": {"properties": {"a": {"$ref": "#"}}},
    "items": {"items": {"$ref": "#"}},
    "contains": {"contains": {"$ref": "#"}},
    "not": {"not": {"properties": {"a": {"$ref": "#"}}, "required": ["b"]}},
    "unevaluated": {"unevaluatedProperties": {"$ref": "#"}},
}
"""Schemas that refer to themselves, one level of the value deeper."""


@pytest.mark.parametrize("keyword", SELF)
def test_a_value_at_the_nesting_of_a_check(keyword: str) -> None:
    """Far down in a stack it is refused at the same depth as at its top: Python's own limit is never what ends a check."""

    def check(levels: int) -> object:
        value: object = 1
        for _ in range(levels):
            value = [value] if keyword in ("items", "contains") else {"a": value}
        try:
            misfits(SELF[keyword], value)
        except InvalidInputError as error:
            return error.code, error.details
        return None

    refused = ("schema_limit", {"limit": "schema_nesting", "most": SCHEMA_NESTING.value})
    found = [check(levels) for levels in range(190)]
    first = found.index(refused)
    assert found == [None] * first + [refused] * (190 - first)
    for levels in (first - 1, first, first + 1):
        assert below(STACK, lambda levels=levels: check(levels)) == found[levels]


STACK = 150
"""Frames of Python's stack below a check, besides those of the test: several times what a door has (`noetl exec` has 24)."""


@pytest.mark.parametrize("draft", ["2020-12", "2019-09"])
@pytest.mark.parametrize("keyword", ["items", "not", "properties", "allOf"])
def test_a_schema_at_its_depth_far_down_in_a_stack(keyword: str, draft: str) -> None:
    """The schema of schemas applies up to five keywords for each level."""
    schema: dict[str, object] = {}
    levels = SCHEMA_DEPTH.value - 1
    for _ in range(levels // 2 if keyword in ("properties", "allOf") else levels):
        held: object = (
            {"a": schema} if keyword == "properties" else [schema] if keyword == "allOf" else schema
        )
        schema = {keyword: held}
    schema["$schema"] = f"https://json-schema.org/draft/{draft}/schema"
    assert below(STACK, lambda: schema_problem(schema)) is None


def test_keywords_inside_each_other_up_to_their_limit() -> None:
    effort = Effort()
    for _ in range(SCHEMA_NESTING.value):
        effort.enter()
    effort.leave()
    effort.enter()
    with pytest.raises(NestingExceededError):
        effort.enter()


def sizes_under_test() -> set[Size]:
    """Limits that have a case here, for the test that every limit has one."""
    return {size for size, *_ in CASES.values()} | {DIAGNOSTICS, SCHEMA_NESTING, SCHEMA_OPERATIONS}
