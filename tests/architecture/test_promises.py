"""The pages of promises and threats name tests that exist."""

import re

from source import ROOT


def test_every_promise_names_tests_that_exist():
    page = (ROOT / "docs" / "guarantees.md").read_text("utf-8").split("## What is not promised", 1)[0]
    promises = re.split(r"^\d+\. ", page, flags=re.MULTILINE)[1:]
    assert len(promises) >= 18
    for promise in promises:
        named = re.findall(r"`((?:tests|playbooks)/[\w/.]+)`", promise)
        assert named, promise
        assert [path for path in named if not (ROOT / path).exists()] == []


def test_promises_are_numbered_in_order_and_none_is_without_a_number():
    page = (ROOT / "docs" / "guarantees.md").read_text("utf-8").split("## What is not promised", 1)[0]
    numbers = [int(found) for found in re.findall(r"^(\d+)\. \*\*", page, flags=re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert not re.findall(r"^- \*\*.*", page, flags=re.MULTILINE)


def test_every_threat_and_decision_of_the_security_page_names_tests_that_exist():
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    threats = page.split("## Threats, and what holds against them\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (?!threat |-)(.+) \|$", threats, flags=re.MULTILINE)
    assert len(rows) >= 20
    for row in rows:
        assert re.findall(r"`(tests/[\w/.]+)`", row.rsplit(" | ", 1)[1]), row
    assert [path for path in re.findall(r"`(tests/[\w/.]+)`", page) if not (ROOT / path).exists()] == []
    decisions = re.findall(r"^\| .+ \| (done|declined): (.+) \|$", page, flags=re.MULTILINE)
    assert len(decisions) == 5
    assert all("tests/" in text for decision, text in decisions if decision == "done")
