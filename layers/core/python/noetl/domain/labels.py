"""Labels of executions: text by name, for lists and filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import check_text, exceeded
from noetl.domain.sizes.table import LABEL, LABELS


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises InvalidInputError(code="invalid_label" or "size_limit")."""
    if len(labels) > LABELS.value:
        raise exceeded(LABELS, len(labels), "labels of an execution")
    for name, value in labels.items():
        _check_label(name, value)


def fitting_labels(declared: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Add the labels that a playbook declares to those of a start, which win.

    A playbook may declare labels for other tools. Those that an execution cannot have are left out: they do not stop a start.
    """
    room = LABELS.value - len(given)
    fitting = [(name, value) for name, value in declared.items() if name not in given and _fits(name, value)]
    return {**dict(fitting[: max(0, room)]), **given}


def _check_label(name: str, value: str) -> None:
    if not (name and "=" not in name and name.isprintable() and value.isprintable()):
        raise InvalidInputError(
            f"{name[:40]!r} is not a label's name, or its value is not one line of text",
            code="invalid_label",
            hint="write team=data",
        )
    check_text(LABEL, name, "the name of a label", code="invalid_label")
    check_text(LABEL, value, f"the label {name[:40]!r}", code="invalid_label")


def _fits(name: str, value: str) -> bool:
    try:
        _check_label(name, value)
    except InvalidInputError:
        return False
    return True


def label_texts(labels: Mapping[str, str]) -> list[str]:
    """Labels as they are kept: ``name=value``."""
    return [f"{name}={value}" for name, value in labels.items()]


def labels_of(texts: Iterable[str]) -> dict[str, str]:
    """The reverse of ``label_texts``."""
    return {name: value for name, _, value in (text.partition("=") for text in texts)}
