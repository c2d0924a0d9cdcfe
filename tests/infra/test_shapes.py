"""The shapes of the environments are those that a reviewer has seen: what changes in a template shows up in a commit."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.infra.shape import NAMES, SHAPES, shape
from tests.parts import parted


@pytest.mark.parametrize(
    ("assembly", "name"),
    parted([(name, name) for name in NAMES], [("dev", "dev"), ("prod", "prod")]),
    indirect=["assembly"],
)
def test_the_shape_of_an_environment_is_the_one_that_was_reviewed(assembly: Path, name: str) -> None:
    seen = (SHAPES / f"{name}.txt").read_text("utf-8")
    found = shape(assembly, name)
    changes = "\n".join(
        difflib.unified_diff(seen.splitlines(), found.splitlines(), "reviewed", "now", lineterm="", n=1)
    )
    assert not changes, f"look at what changed, then `make shapes`:\n{changes}"


def test_a_shape_is_short_enough_to_be_read() -> None:
    for name in NAMES:
        text = (SHAPES / f"{name}.txt").read_text("utf-8")
        assert 100 < len(text.splitlines()) < 500
        assert "# roles" in text and "# security groups" in text
