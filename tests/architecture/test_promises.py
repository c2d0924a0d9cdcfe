"""The page of promises names tests that are there."""

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
