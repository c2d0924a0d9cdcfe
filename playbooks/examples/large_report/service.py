"""GET /orders?count=n: an export of n orders."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

CURRENCIES = ("EUR", "NOK", "PEN")
FIRST_DAY = datetime.date(2026, 1, 1)
CUSTOMERS = 800


def order(number: int) -> dict[str, Any]:
    """The order of a number, from 1."""
    return {
        "id": number,
        "day": (FIRST_DAY + datetime.timedelta(number % 365)).isoformat(),
        "customer": number % CUSTOMERS + 1,
        "currency": CURRENCIES[number % 3],
        "amount": round(number % 997 * 1.25, 2),
        "note": f"order {number}, to be delivered",
    }


def service() -> Callable[..., tuple[int, Any]]:
    """A new service."""

    def answer(
        method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> tuple[int, Any]:
        if path != "/orders":
            return 404, {"detail": f"no route {path}"}
        return 200, [order(number) for number in range(1, int(query.get("count", "100")) + 1)]

    return answer
