"""Parts of a text in order: the same answers as a regular expression, in a time that grows with the text."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from noetl.domain.text.wildcards import fits

TEXT = st.text("ab", max_size=8)


@given(st.lists(st.text("ab", max_size=2), min_size=1, max_size=4), TEXT, st.integers(0, 2))
def test_it_answers_as_a_regular_expression_does(parts, text, gap):
    pattern = f".{{{gap},}}".join(map(re.escape, parts))
    assert fits(parts, text, gap=gap) is (re.fullmatch(pattern, text) is not None)


def test_many_parts_take_no_time():
    """A regular expression of these parts takes longer than anybody waits."""
    began = time.process_time()
    assert not fits(["a"] * 200 + ["b"], "a" * 100_000)
    assert not fits([*["a"] * 200, "b", "c"], "a" * 100_000 + "c", gap=1)
    assert time.process_time() - began < 2.0
