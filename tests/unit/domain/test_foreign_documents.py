"""Documents of others are counted before anything is made of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.domain import codec

TEXTS = st.text(st.sampled_from('a,[{"\\ä\n'), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers(0, 99) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def entries(value: Any) -> int:
    """Count lists, mappings, and the commas between their entries."""
    if not isinstance(value, (list, dict)):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(len(value) - 1, 0) + sum(map(entries, inner))


@given(value=VALUES, piece=st.integers(1, 9))
def test_commas_and_brackets_of_texts_are_not_counted(value: Any, piece: int) -> None:
    data, most = codec.encode(value), entries(value)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(codec, "PIECE", piece)
        assert codec.decode_foreign(data, most) == value
        if most:
            with pytest.raises(codec.TooManyValuesError):
                codec.decode_foreign(data, most - 1)
