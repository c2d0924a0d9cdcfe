"""Labels of executions: those of a start are checked, those that a playbook declares are taken where they fit."""

from __future__ import annotations

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.domain.labels import check_labels, fitting_labels
from noetl.domain.sizes.table import LABEL, LABELS
from tests.parts import over


@over("declared", [{"a=b": "x"}, {"": "x"}, {"bidi \u202e": "x"}, {"long": "x" * (LABEL.value + 1)}])
def test_a_declared_label_that_does_not_fit_is_left_out_and_a_given_one_is_refused(declared) -> None:
    assert fitting_labels({**declared, "team": "data"}, {"run": "1"}) == {"team": "data", "run": "1"}
    with pytest.raises(InvalidInputError):
        check_labels(declared)


def test_given_labels_win_and_declared_ones_take_the_room_that_is_left() -> None:
    declared = {f"d{number}": "x" for number in range(LABELS.value)}
    found = fitting_labels({"team": "a", **declared}, {"team": "b"})
    assert found["team"] == "b" and len(found) == LABELS.value
    check_labels(found)
