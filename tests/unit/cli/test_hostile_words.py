"""Hostile texts in the words of commands: what is refused here is refused at a server, and no list is lost."""

from __future__ import annotations

import pytest

from noetl.cli.errors import USAGE
from tests.integration.api.hostile_bodies import TEXTS
from tests.parts import parted
from tests.unit.cli.test_doors import both

__all__ = ["both"]
COMMANDS = (
    "credential add {} --type generic --set k=v",
    "credential add kept --type {} --set k=v",
    "credential add kept --type generic --set k={}",
    "credential show {}",
    "trigger add {} demo/hello --webhook",
    "trigger add made {} --webhook",
    "trigger add made demo/hello --webhook --event-id {}",
    "trigger add made demo/hello --bucket {} --prefix {}",
    "trigger add made demo/hello --folder {} --files {}",
    "trigger fire hook --set a={}",
    "trigger fire {} --set a=1",
    "schedule show {}",
    "schedule next {}",
    "schedule pause {}",
    "limit set {} --concurrent 1",
    "callback ASKING --set {}={}",
    "redrive FAILED --from {}",
    "redrive FAILED --from start --set {}=1",
    "redrive FAILED --from start --set a={} --reason {}",
    "redrive FAILED --from start --set m=-{digits}",
    "redrive FAILED --version {digits}",
    "vars set WAITING --set {}={}",
    "inject WAITING start --set {}={} --correlation-id {}",
    "ctx patch WAITING --set {}={} --reason {}",
)
LISTS = ("list", "credential list", "trigger list", "schedule list", "limit list", "vars list WAITING")


@pytest.mark.parametrize(
    "text", parted(TEXTS.values(), [TEXTS["half of a pair"], TEXTS["control"]], ids=tuple(TEXTS))
)
def test_hostile_words_are_kept_or_refused_alike_and_every_list_is_shown(both, text: str) -> None:
    # No word of a command line holds NUL, or a half of a pair but those that stand for single bytes. It ends at white space.
    word = "".join(
        letter for letter in text.replace("\ud800", "\udc80") if letter != "\0" and not letter.isspace()
    )
    for command in COMMANDS:
        here, there = both(command.replace("{digits}", "9" * 3999).replace("{}", word))
        assert here.code == there.code and here.code in (0, 1, USAGE), (command, here, there)
        for ran in (here, there):
            assert "Traceback" not in ran.err and "internal" not in ran.err, (command, ran)
            assert ran.code == 0 or "code: " in ran.err or ran.out or "Usage" in ran.err, (command, ran)
    for command in LISTS:
        for ran in both(command):
            assert ran.code == 0 and all(row.get("unreadable") is None for row in ran.json), (command, ran)
