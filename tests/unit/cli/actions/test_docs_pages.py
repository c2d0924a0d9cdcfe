"""``noetl docs``: the order in which it lists pages."""

from __future__ import annotations


def test_pages_for_users_come_first_in_reading_order_and_records_last(noetl) -> None:
    pages = noetl("docs").out.split()
    assert pages[:4] == ["README", "dsl", "examples", "features"]
    assert pages.index("cli") + 1 == pages.index("cli/deploy")
    records = [page.startswith("adr/") for page in pages]
    assert any(records) and records == sorted(records)
    assert len(set(pages)) == len(pages)
    assert noetl("docs", "--json").json == [pages]
