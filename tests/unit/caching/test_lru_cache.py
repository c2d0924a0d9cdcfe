"""A cache forgets what was used longest ago, by the number of its entries and by their sizes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from noetl.caching.lru_cache import LruCache


def test_what_was_used_longest_ago_goes_first():
    cache = LruCache[str, int](3)
    assert [cache.put(key, number) for number, key in enumerate("abc")] == [True] * 3
    assert cache.get("a") == 0 and cache.put("b", 9) is False
    cache.put("d", 3)
    assert [key for key in "abcd" if key in cache] == ["a", "b", "d"] and cache.get("c") is None
    assert cache.get_or_put("a", 5) == 0 and cache.get_or_put("e", 5) == 5
    assert [key for key in "abde" if key in cache] == ["a", "d", "e"]
    assert cache.pop("a") == 0 and cache.pop("a") is None and len(cache) == 2


def test_sizes_are_bounded_too_and_the_newest_stays_however_large():
    cache = LruCache[str, str](most_size=10)
    cache.put("a", "a", 4)
    cache.put("b", "b", 4)
    cache.put("a", "larger", 6)
    assert len(cache) == 2, "a value that is put again counts once"
    cache.put("c", "c", 1)
    assert "b" not in cache and "a" in cache
    cache.put("huge", "huge", 99)
    assert len(cache) == 1 and cache.get("huge") == "huge"
    cache.put("d", "d", 1)
    assert len(cache) == 1 and cache.get("d") == "d"
    cache.pop("d")
    cache.put("e", "e", 10)
    cache.clear()
    cache.put("f", "f", 5)
    cache.put("g", "g", 5)
    assert len(cache) == 2, "what went is not counted"


def test_none_is_a_value_that_can_be_noted():
    cache = LruCache[str, None](2)
    assert cache.put("a", None) and not cache.put("a", None) and "a" in cache


def test_threads_share_one():
    cache = LruCache[int, int](50, 500)

    def use(seed: int) -> bool:
        rng = random.Random(seed)
        right = True
        for _ in range(2000):
            key = rng.randrange(200)
            match rng.randrange(4):
                case 0:
                    cache.put(key, key, rng.randrange(40))
                case 1:
                    right &= cache.get_or_put(key, key) == key
                case 2:
                    cache.pop(key)
                case _:
                    right &= cache.get(key) in (None, key)
        return right

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(8)))
    assert len(cache) <= 50 and 0 <= cache._size <= 500
    for key in range(200):
        cache.pop(key)
    assert cache._size == 0
