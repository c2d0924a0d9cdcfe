"""`noetl redrive ID --dry-run`: what would run, here and at a server, and nothing changes."""

from __future__ import annotations

import re

from tests.unit.cli.test_doors import both

__all__ = ["both"]

CODE = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")

STEPS = """\
workflow:
  - step: start
    tool: { kind: noop, args: { n: 1 } }
    next: { arcs: [{ step: load }] }
  - step: load
    tool: { kind: noop, args: { n: 2 } }
    next: { arcs: [{ step: tell }] }
  - step: tell
    tool: { kind: noop, args: { n: 3 } }
"""


def test_it_names_the_steps_and_changes_nothing(noetl, write):
    assert noetl("run", write("three.yaml", STEPS)).code == 0
    before = noetl("events", "latest", "--json").json
    ran = noetl("redrive", "latest", "--from", "load", "--dry-run")
    assert ran.code == 0, ran.err
    assert [line.split(maxsplit=3)[-1].split()[-1] for line in ran.out.splitlines()[2:]] == [
        "load",
        "tell",
        "start",
    ]
    assert "runs" in ran.out and "then may run" in ran.out and "keeps the results of" in ran.out
    plan = noetl("redrive", "latest", "--from", "load", "--dry-run", "--json").json[0]
    assert plan["dry_run"] is True and plan["kept"] == ["start"] and plan["follows"] == ["tell"]
    assert plan["begins"] == [{"step": "load", "action": "run", "items": None, "count": 1}]
    left = noetl("redrive", "latest", "--from", "load", "--output", "1", "--dry-run")
    assert left.code == 0 and "leaves, with the given output" in left.out
    assert noetl("events", "latest", "--json").json == before


def test_it_answers_there_as_here_and_is_refused_as_a_redrive_is(both):
    for ran in both("redrive FAILED --dry-run"):
        assert ran.code == 0 and ran.json[0]["begins"], ran
    for words in (
        "redrive WAITING",
        "redrive FAILED --from none",
        "redrive 7",
        "redrive FAILED --version 99",
    ):
        refused = [ran for text in (words, f"{words} --dry-run") for ran in both(text)]
        assert {ran.code for ran in refused} == {2}, refused
        texts = [ran.err or ran.json[0]["error"]["code"] for ran in refused]
        assert len({CODE.findall(text)[0] for text in texts}) == 1, texts


def test_other_commands_have_no_dry_run_for_one_execution(noetl):
    for verb in ("cancel", "pause", "unpause"):
        ran = noetl(verb, "latest", "--dry-run")
        assert ran.code == 2 and "--dry-run belongs to a --filter" in ran.err
    ran = noetl("redrive", "latest", "--yes")
    assert ran.code == 2 and "--yes belongs to a --filter" in ran.err
