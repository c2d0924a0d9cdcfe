"""What is read without Typer's validators is what these would give; what does not fit, they refuse in their own words."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from noetl.cli.lazy_commands import command_of

app = typer.Typer(add_completion=False)


@app.command()
def command(
    texts: Annotated[list[str] | None, typer.Argument()] = None,
    number: Annotated[int, typer.Option(min=-5, max=1000)] = 20,
    free: Annotated[int | None, typer.Option()] = None,
    clamped: Annotated[int, typer.Option(min=0, max=9, clamp=True)] = 1,
    share: Annotated[float, typer.Option()] = 0.5,
    name: Annotated[str | None, typer.Option()] = None,
    parsed: Annotated[str, typer.Option(parser=str.upper)] = "x",
    several: Annotated[list[str] | None, typer.Option()] = None,
    flag: Annotated[bool, typer.Option("--flag", envvar="PLAIN_FLAG")] = False,
) -> dict[str, Any]:
    return locals()


def outcome(made: Any, words: list[str]) -> Any:
    """What the function got, with types, or the refusal."""
    try:
        found = made.main(args=words, prog_name="x", standalone_mode=False)
    except Exception as error:
        return type(error), getattr(error, "message", str(error))
    return found, {key: type(value) for key, value in found.items()} if isinstance(found, dict) else None


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["a", "", "ü"],
        ["--number", "+7", "--free", "-0012"],
        *(
            ["--number", text]
            for text in ("-6", "-5", "1000", "1001", "x", "1_0", "１２", " 7 ", "", "7.0", "9" * 30)
        ),
        ["--free", "9" * 30],
        ["--clamped", "12"],
        ["--share", "0.25"],
        ["--name", "", "--parsed", "abc"],
        ["--several", "a", "--several", "b=c"],
        ["--flag"],
        ["--help"],
        ["--nothing"],
    ],
    ids=" ".join,
)
def test_the_same_as_typer(words, capsys):
    assert outcome(command_of(app), words) == outcome(get_command(app), words)


@pytest.mark.parametrize("value", ["yes", "maybe"])
def test_flags_of_the_environment_are_read_by_typer(monkeypatch, value):
    monkeypatch.setenv("PLAIN_FLAG", value)
    assert outcome(command_of(app), []) == outcome(get_command(app), [])
