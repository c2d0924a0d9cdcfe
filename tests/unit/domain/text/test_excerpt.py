"""A text is cut where it is too long, and says so."""

import pytest

from noetl.domain.text.excerpt import excerpt


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("abcde", "abcde"), ("abcdef", "abcd…")])
def test_a_cut_text_has_at_most_its_characters(text: str, shown: str) -> None:
    assert excerpt(text, 5) == shown
