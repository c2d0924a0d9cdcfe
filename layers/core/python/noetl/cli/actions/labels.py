"""Labels on the command line: `--label team=data`."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.domain.errors import InvalidInputError
from noetl.domain.labels import check_labels


def parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """Read labels: ``["team=data"]`` → ``{"team": "data"}``.

    Raises InvalidInputError(code="invalid_label").
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidInputError(
                f"--label {text[:80]!r} is not name=value",
                code="invalid_label",
                hint="write --label team=data",
            )
        found[name.strip()] = value.strip()
    check_labels(found)
    return found
