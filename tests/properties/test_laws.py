"""The table of laws in docs/guarantees.md is that of the code, and every law can be broken: each check refuses what it is to refuse."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from noetl.domain.facts import facts as f
from noetl.ports.executions.execution_store import ExecutionInfo, StoredEvent
from tests.properties import invariants, shapes
from tests.properties.accounts import check_children, check_own_results, check_paused, check_values
from tests.properties.doors import check_own_start
from tests.properties.laws import LAWS, LawBrokenError, law
from tests.properties.scenes import retention

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"


def test_the_table_lists_every_law_as_the_code_says_it():
    assert invariants.__name__ and shapes.__name__ and retention.__name__, "all modules with laws are loaded"
    section = PAGE.read_text("utf-8").split("## The laws of the simulator\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (\w+) \| `([a-z_]+)` \|$", section, re.MULTILINE)
    wanted = [(one.name, one.says, one.when, one.module) for one in LAWS.values()]
    assert sorted(rows) == sorted(wanted)


def test_every_module_with_laws_is_loaded():
    """A law of a module that no test loads would hold nothing, and would be missing in the table unnoticed."""
    text = "".join(
        file.read_text("utf-8") for file in Path(__file__).parent.rglob("*.py") if file != Path(__file__)
    )
    assert set(re.findall(r'^ *@law\("([a-z-]+)"', text, re.MULTILINE)) == set(LAWS)


def test_the_table_of_whole_executions_lists_the_laws_that_are_checked():
    section = PAGE.read_text("utf-8").split("## Whole executions through public interfaces\n", 1)[1]
    text = "".join(file.read_text("utf-8") for file in (Path(__file__).parent / "whole").glob("*.py"))
    checked = re.findall(r'\.broke\(\s*"([a-z-]+)"', text)
    assert set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == set(checked)


def test_every_law_says_what_it_demands():
    assert all(one.says.endswith(".") and len(one.says) > 20 for one in LAWS.values())
    with pytest.raises(AssertionError, match="two laws"):
        law("everything-ends", "end")(lambda: None)


def test_a_broken_law_is_named():
    with pytest.raises(LawBrokenError, match="law runs-see-their-own-result: "):
        check_own_results(["run 1 saw 2"])
    with pytest.raises(LawBrokenError, match="law values-arrive-as-they-left: "):
        check_values(["1 became 2"])
    check_children(())


def test_a_start_that_is_answered_with_the_execution_of_another_breaks_a_law():
    infos = {1: SimpleNamespace(path="demo/other"), 2: SimpleNamespace(path="demo/mine")}
    world = SimpleNamespace(store=SimpleNamespace(info=infos.get))
    check_own_start(SimpleNamespace(world=world, path="demo/mine", execution_id=2))  # type: ignore[arg-type]
    for execution_id in (1, 3):
        with pytest.raises(LawBrokenError, match="law starts-get-their-own-execution: "):
            check_own_start(SimpleNamespace(world=world, path="demo/mine", execution_id=execution_id))  # type: ignore[arg-type]


class Histories:
    """A store of executions 1, 2, ..., each the child of the one before, with the times at which they began and were paused."""

    def __init__(self, *members: tuple[str, float, float | None]) -> None:
        self.members = members

    def executions(self, *, limit: int) -> list[ExecutionInfo]:
        return [
            ExecutionInfo(number, f"member{number}", "", status, "", 1, began, None, number - 1 or None, b"")  # type: ignore[arg-type]
            for number, (status, began, _) in enumerate(self.members, 1)
        ]

    def events(self, execution_id: int, *, after: int, limit: int) -> list[StoredEvent]:
        _, began, paused = self.members[execution_id - 1]
        rows = [StoredEvent("start", 0, 1, "", began, f.encode_facts([f.Initialized("", "", "", 1)]))]
        if paused is not None:
            rows.append(StoredEvent("pause", 0, 2, "", paused, f.encode_facts([f.Paused("", "", 0)])))
        return [row for row in rows if row.seq > after]


@pytest.mark.parametrize(
    "members",
    [
        [("paused", 0, 5), ("completed", 1, None), ("completed", 7, None)],
        [("paused", 0, 5), ("paused", 1, 9), ("completed", 7, None)],
        [("running", 0, None), ("running", 1, None)],
    ],
)
def test_members_go_on_until_the_pause_of_their_family_reaches_them(members):
    check_paused(SimpleNamespace(store=Histories(*members)), 1)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([("paused", 0, 5), ("completed", 7, None)], "member2 began 2 s after the pause of its parent"),
        ([("paused", 0, 5), ("paused", 1, 6), ("completed", 7, None)], "member3 began 1 s after"),
        ([("paused", 0, 5), ("completed", 1, None), ("running", 2, None)], "member3 is running"),
    ],
)
def test_a_paused_family_that_is_not_still_is_told_of(members, told):
    with pytest.raises(LawBrokenError, match=f"law paused-families-are-still: {told}"):
        check_paused(SimpleNamespace(store=Histories(*members)), 1)
