"""Limits of documents at the command line: here and at a server the same words, the same exit code, and nothing is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.cli.actions.payload import parse_set, parse_value, read_payload
from noetl.cli.errors import USAGE
from noetl.domain.automations.schedules import instant
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.table import (
    AHEAD_SECONDS,
    CORRELATION_ID,
    CREDENTIAL_BYTES,
    CREDENTIAL_NAME,
    CREDENTIAL_TYPE,
    DOCUMENT_BYTES,
    DOCUMENT_DEPTH,
    DOCUMENT_KEYS,
    INTEGER_DIGITS,
    LABEL,
    LABELS,
    LIMIT_KEY,
    NAME,
    PATCH_OPERATIONS,
    PATH,
    PLAYBOOK_ALIASES,
    PLAYBOOK_VALUES,
    PRIORITY,
    REASON,
    SET_DEPTH,
    TRIGGER_NAME,
    TRIGGER_TEMPLATE,
    TRIGGER_TEXT,
    Size,
)
from tests.parts import ABOUT_A_LIMIT, over, parted
from tests.unit.api.ground import HELLO
from tests.unit.api.test_sizes import SCHEMAS, costly, digits, keyed, keys, nested
from tests.unit.cli.fake_runtime import Database
from tests.unit.cli.test_doors import both
from tests.unit.dsl.test_sizes import CASES as PLAYBOOKS

__all__ = ["both", "costly"]

MADE = {NAME: keyed, DOCUMENT_KEYS: keys, DOCUMENT_DEPTH: nested, INTEGER_DIGITS: digits}
FILES = (
    "run hello.yaml --payload document.json",
    "exec demo/hello --payload document.json",
    "ctx patch WAITING --patch document.json",
)


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize("size", MADE, ids=lambda size: size.name)
@pytest.mark.parametrize("command", FILES)
def test_a_document_at_its_limit(both, tmp_path: Path, command: str, size, over: int) -> None:
    (tmp_path / "document.json").write_text(MADE[size](size.value + over))
    for ran in both(command):
        assert ran.code == (USAGE if over > 0 else 0), ran
        if over > 0:
            assert f"more than {size.value}" in ran.out + ran.err
            assert size.name in ran.out + ran.err
            assert "Traceback" not in ran.err


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize(
    "command",
    ["run hello.yaml --set", "exec demo/hello --set", "ctx patch WAITING --set", "vars set WAITING --set"],
)
def test_names_and_numbers_of_set(both, command: str, over: int) -> None:
    for text, most in (
        (f"{'k' * (NAME.value + over)}=1", NAME.value),
        (f"m=-{'9' * (INTEGER_DIGITS.value + over)}", INTEGER_DIGITS.value),
        (f"m={'9' * (INTEGER_DIGITS.value + (1000 if over > 0 else over))}", INTEGER_DIGITS.value),
    ):
        for ran in both(f"{command} {text}"):
            assert ran.code == (USAGE if over > 0 else 0), ran
            assert over <= 0 or f"more than {most}" in ran.out + ran.err


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_the_reason_of_a_change(both, over: int) -> None:
    for command in ("cancel WAITING", "pause WAITING", "ctx patch WAITING --set a=1"):
        for ran in both(f"{command} --reason {'r' * (REASON.value + over)}"):
            assert ran.code == (USAGE if over > 0 else 0), ran


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_how_far_ahead_a_start_lies(both, over: int) -> None:
    # A moment is written in whole seconds, and each handled batch moves the clock on: one second over may be none.
    for ran in both(f"exec demo/hello --at {instant(Database().now + AHEAD_SECONDS.value + 60 * over)}"):
        assert ran.code == (USAGE if over > 0 else 0), ran
        assert over <= 0 or (AHEAD_SECONDS.name in ran.err and str(AHEAD_SECONDS.value) in ran.err), ran


@pytest.mark.parametrize("costly", SCHEMAS, ids=lambda size: size.name, indirect=True)
@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_what_is_held_against_a_schema_at_its_limit(both, tmp_path: Path, request, costly, over: int) -> None:
    schema, documents = costly
    (tmp_path / "checked.yaml").write_text(
        HELLO.replace("workflow:", f"input: {json.dumps(schema)}\nworkflow:").replace(
            "demo/hello", "demo/checked"
        )
    )
    (tmp_path / "document.json").write_text(json.dumps(documents[over + 1]))
    size = request.node.callspec.params["costly"]
    for _ in both("register checked.yaml"):
        pass
    for ran in both("exec demo/checked --payload document.json"):
        assert ran.code == (USAGE if over > 0 else 0), ran
        assert over <= 0 or ("schema_limit" in ran.err and str(size.value) in ran.err), ran


COMMANDS = {
    "folder": (TRIGGER_TEXT, lambda n: f"trigger add t1 demo/hello --folder /in --files {'p' * n}", 0),
    "bucket": (TRIGGER_TEXT, lambda n: f"trigger add t1 demo/hello --bucket a-bucket --prefix {'p' * n}", 0),
    "event id": (TRIGGER_TEMPLATE, lambda n: f"trigger add t2 demo/hello --webhook --event-id {'e' * n}", 0),
    "data": (CREDENTIAL_BYTES, lambda n: f"credential add c1 --type generic --set k={'v' * (n - 8)}", 0),
    "path": (PATH, lambda n: f"trigger add t3 {'p' * n} --webhook", USAGE),
}
"""What a command is given, its limit, and the exit code of what fits: no playbook has so long a path here."""


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize("case", COMMANDS)
def test_what_a_command_is_given_at_its_limit(both, case: str, over: int) -> None:
    size, command, fits = COMMANDS[case]
    for ran in both(command(size.value + over)):
        assert ran.code == (USAGE if over > 0 else fits), ran
        assert (f"{size.value}" in ran.err + ran.out) == (over > 0), ran
        assert "Traceback" not in ran.err


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_the_operations_of_a_patch(both, tmp_path: Path, over: int) -> None:
    operations = [{"op": "add", "path": "/a", "value": 1}] * (PATCH_OPERATIONS.value + over)
    (tmp_path / "patch.json").write_text(json.dumps(operations))
    for ran in both("ctx patch WAITING --patch patch.json"):
        assert ran.code == (USAGE if over > 0 else 0), ran
        assert over <= 0 or f"{PATCH_OPERATIONS.value}" in ran.err + ran.out


@pytest.mark.parametrize("name", ["payload.json", "payload.yaml", "payload"])
@pytest.mark.parametrize("count", [INTEGER_DIGITS.value + 1, 4301, 5000])
def test_digits_in_a_file_of_either_form(tmp_path: Path, name: str, count: int) -> None:
    path = tmp_path / name
    text = f"n: {'9' * count}\n" if name.endswith("yaml") else f'{{"n": {"9" * count}}}'
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=f"more than {INTEGER_DIGITS.value}"):
        read_payload(str(path), ())


@over("text", ["9" * 4001, "-" + "9" * 5000, "0x" + "f" * 3999, "[1, " + "9" * 5000 + "]"])
def test_a_number_that_is_too_long_is_no_text(text: str) -> None:
    """A number that becomes text because of its length would be another value than the one that was given."""
    with pytest.raises(InvalidInputError, match="a whole number"):
        parse_value(text)


@pytest.mark.parametrize("key", ["a\0b", "\ud800"])
def test_any_text_is_a_key_of_a_payload(both, tmp_path: Path, key: str) -> None:
    (tmp_path / "document.json").write_text(json.dumps({key: {key: key}}))
    for command in FILES:
        for ran in both(command):
            assert ran.code == 0, ran


def sized(count: int) -> str:
    """A document of ``count`` bytes."""
    return json.dumps({"a": "x" * (count - len('{"a":""}'))}, separators=(",", ":"))


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize("name", ["document.json", "document.yaml"])
@pytest.mark.parametrize("size", [*MADE, DOCUMENT_BYTES], ids=lambda size: size.name)
def test_a_payload_is_read_alike_in_either_form(tmp_path: Path, name: str, size: Size, over: int) -> None:
    """JSON is YAML as well: what one reader refuses, the other does, with the same code and fields."""
    path = tmp_path / name
    made = {**MADE, DOCUMENT_BYTES: sized}[size](size.value + over)
    path.write_text(
        made.replace("{", "{ ", 1) if name.endswith("yaml") and size is not DOCUMENT_BYTES else made
    )
    if over <= 0:
        assert read_payload(str(path), ()) == json.loads(made)
        return
    with pytest.raises(InvalidInputError) as refused:
        read_payload(str(path), ())
    told = refused.value
    assert (told.code, told.details["limit"], told.details["most"]) == ("size_limit", size.name, size.value)
    assert told.hint and str(size.value) in told.message


@pytest.mark.parametrize("over", parted([-1, 0, 1], [1]))
@pytest.mark.parametrize(
    ("size", "text"),
    [
        (PLAYBOOK_VALUES, lambda n: f"a: [{', '.join(['1'] * (n - 3))}]\n"),
        (PLAYBOOK_ALIASES, lambda n: f"a: &x 1\nb: [{', '.join(['*x'] * n)}]\n"),
    ],
)
def test_what_the_reader_of_yaml_counts(
    tmp_path: Path, size: Size, text: Callable[[int], str], over: int
) -> None:
    path = tmp_path / "payload.yaml"
    path.write_text(text(size.value + over))
    if over <= 0:
        assert read_payload(str(path), ())
        return
    with pytest.raises(InvalidInputError, match=r"payload\.yaml:\d+:\d+: ") as refused:
        read_payload(str(path), ())
    assert (refused.value.code, refused.value.details["limit"]) == ("size_limit", size.name)


NAMED = {
    "trigger": (TRIGGER_NAME, "trigger add {} demo/hello --webhook"),
    "credential": (CREDENTIAL_NAME, "credential add {} --type generic --set k=v"),
    "credential type": (CREDENTIAL_TYPE, "credential add kept --type {} --set k=v"),
    "limit": (LIMIT_KEY, "limit set {} --concurrent 1"),
    "correlation": (CORRELATION_ID, "ctx patch WAITING --set a=1 --correlation-id {}"),
    "correlation of a token": (CORRELATION_ID, "inject WAITING start --correlation-id {}"),
    "label": (LABEL, "exec demo/hello --label team={}"),
    "reason": (REASON, "cancel WAITING --reason {}"),
}


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize("case", NAMED)
def test_a_name_at_its_limit_here_and_at_a_server(both, case: str, over: int) -> None:
    size, command = NAMED[case]
    for ran in both(command.format("n" * (size.value + over))):
        assert ran.code == (USAGE if over > 0 else 0), ran
        if over > 0:
            assert (
                size.name in ran.err and f"{size.value + 1} {size.unit}, more than {size.value}" in ran.err
            ), ran


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_the_keys_of_one_set(over: int) -> None:
    name = ".".join("k" * (SET_DEPTH.value + over))
    if over <= 0:
        assert len(parse_set(f"{name}=1")[0]) == SET_DEPTH.value + over
        return
    with pytest.raises(InvalidInputError) as refused:
        parse_set(f"{name}=1")
    assert (refused.value.code, refused.value.details["limit"]) == ("invalid_set", SET_DEPTH.name)


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_priority(both, sign: str, over: int) -> None:
    for ran in both(f"exec demo/hello --priority={sign}{PRIORITY.value + over}"):
        assert ran.code == (USAGE if over > 0 else 0), ran
        assert over <= 0 or str(PRIORITY.value) in ran.err


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_the_labels_of_one_start(both, over: int) -> None:
    words = " ".join(f"--label l{number}=v" for number in range(LABELS.value + over))
    for ran in both(f"exec demo/hello {words}"):
        assert ran.code == (USAGE if over > 0 else 0), ran
        assert over <= 0 or f"more than {LABELS.value}" in ran.err


LONG = {"values", "steps", "brackets", "bytes", "aliases"}
"""Playbooks that take long to compile: those that fit are compiled in ``tests/unit/dsl/test_sizes.py`` as well."""
LONGEST = {"values", "steps", "template"}
"""Those whose refusal takes long; that file has it, too."""


@pytest.mark.parametrize(
    ("case", "over"),
    parted(
        [(case, over) for case in PLAYBOOKS if case != "templates" for over in (-1, 0, 1)],
        [
            (case, over)
            for case in PLAYBOOKS
            for over in (0, 1)
            if case not in (LONG if over == 0 else LONGEST)
        ],
    ),
)
def test_a_playbook_at_its_limit(noetl, tmp_path: Path, case: str, over: int) -> None:
    """``noetl validate``, ``register`` and ``run`` are one compiler: the same code, the same line, nothing kept."""
    size, code, make, line = PLAYBOOKS[case]
    (tmp_path / "p.yaml").write_text(make(size.value + over))
    for command in ("validate", "register") if over > 0 else ("validate",):
        ran = noetl(command, "p.yaml")
        if over <= 0:
            assert f"[{code}]" not in ran.out + ran.err, ran
        else:
            assert ran.code == USAGE, ran
            assert f"p.yaml:{line}:" in ran.out + ran.err and code in ran.out + ran.err
            assert "Traceback" not in ran.err


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_the_path_of_a_playbook(both, tmp_path: Path, over: int) -> None:
    """Here and at a server: what is refused is not kept, and what is kept can be run by its path, which no file could be called."""
    path = "n" * (PATH.value + over)
    (tmp_path / "p.yaml").write_text(PLAYBOOKS["path"][2](PATH.value + over))
    for ran in both("register p.yaml"):
        assert ran.code == (USAGE if over > 0 else 0), ran
        assert over <= 0 or f"more than {PATH.value}" in ran.out + ran.err, ran
    for ran in both(f"exec {path}"):
        assert (ran.code == 0) == (over <= 0), ran
        assert over <= 0 or "code: invalid_path" in ran.err or "code: playbook_not_found" in ran.err, ran


def sizes_under_test() -> set[Size]:
    """Limits that have a case here, for the test that every limit has one."""
    return {
        *MADE,
        *(size for name, (size, *_) in PLAYBOOKS.items() if name != "templates"),
        DOCUMENT_BYTES,
        SET_DEPTH,
        PRIORITY,
        LABELS,
        PATCH_OPERATIONS,
        AHEAD_SECONDS,
        *SCHEMAS,
        *(size for size, *_ in COMMANDS.values()),
        *(size for size, _ in NAMED.values()),
    }
