"""Limits of documents at the command line: here and at a server the same words, the same exit code, and nothing is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.cli.errors import USAGE
from noetl.cli.payload import parse_value, read_payload
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes import DOCUMENT_DEPTH, DOCUMENT_KEYS, INTEGER_DIGITS, NAME, REASON
from tests.unit.api.test_sizes import digits, keyed, keys, nested
from tests.unit.cli.test_doors import both

__all__ = ["both"]

MADE = {NAME: keyed, DOCUMENT_KEYS: keys, DOCUMENT_DEPTH: nested, INTEGER_DIGITS: digits}
FILES = (
    "run hello.yaml --payload document.json",
    "exec demo/hello --payload document.json",
    "ctx patch WAITING --patch document.json",
)


@pytest.mark.parametrize("over", [-1, 0, 1])
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


@pytest.mark.parametrize("over", [-1, 0, 1])
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


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_the_reason_of_a_change(both, over: int) -> None:
    for command in ("cancel WAITING", "pause WAITING", "ctx patch WAITING --set a=1"):
        for ran in both(f"{command} --reason {'r' * (REASON.value + over)}"):
            assert ran.code == (USAGE if over > 0 else 0), ran


@pytest.mark.parametrize("name", ["payload.json", "payload.yaml", "payload"])
@pytest.mark.parametrize("count", [INTEGER_DIGITS.value + 1, 4301, 5000])
def test_digits_in_a_file_of_either_form(tmp_path: Path, name: str, count: int) -> None:
    path = tmp_path / name
    text = f"n: {'9' * count}\n" if name.endswith("yaml") else f'{{"n": {"9" * count}}}'
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=f"more than {INTEGER_DIGITS.value}"):
        read_payload(str(path), ())


@pytest.mark.parametrize("text", ["9" * 4001, "-" + "9" * 5000, "0x" + "f" * 3999, "[1, " + "9" * 5000 + "]"])
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
