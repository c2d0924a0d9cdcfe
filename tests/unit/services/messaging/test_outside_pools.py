"""A warm engine does not go on offering commands to workers that have gone."""

from __future__ import annotations

from typing import Any

from noetl.services.messaging.outside_pools import MOST_SECONDS, OutsidePools


class Store:
    """``known``: what the last look found; ``now``: what the next one finds."""

    def __init__(self, known: set[str], now: set[str]) -> None:
        self.fetched, self.now = frozenset(known), frozenset(now)
        self.looks = 0

    def load(self, requests: Any) -> None:
        assert not requests
        self.looks += 1
        self.fetched = self.now


def test_a_pool_whose_last_worker_has_gone_is_forgotten_after_a_while() -> None:
    time = [100.0]
    store = Store({"io"}, set())
    pools = OutsidePools(store, lambda: time[0])
    time[0] += MOST_SECONDS
    assert pools() == {"io"} and store.looks == 0
    time[0] += 0.1
    assert pools() == frozenset() and store.looks == 1


def test_one_look_lasts_for_its_time() -> None:
    time = [100.0]
    store = Store({"io"}, {"io", "python"})
    pools = OutsidePools(store, lambda: time[0])
    for _ in range(3):
        time[0] += MOST_SECONDS + 0.1
        assert [pools(), pools()] == [{"io", "python"}] * 2
    assert store.looks == 3


def test_where_no_pool_is_known_nothing_is_asked() -> None:
    time = [100.0]
    store = Store(set(), {"io"})
    pools = OutsidePools(store, lambda: time[0])
    time[0] += 10 * MOST_SECONDS
    assert pools() == frozenset() and store.looks == 0
