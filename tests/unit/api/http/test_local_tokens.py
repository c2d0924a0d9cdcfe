"""The file of a local server's tokens, changed by several at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from noetl.api.http.local_tokens import LocalTokens

NAMES = [f"someone-{number:02}" for number in range(24)]


def test_who_changes_tokens_at_the_same_time_loses_none(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    with ThreadPoolExecutor(8) as pool:
        tokens = dict(
            zip(NAMES, pool.map(lambda name: LocalTokens(file).add(name, ["read"]), NAMES), strict=True)
        )
        assert [entry.name for entry in LocalTokens(file).entries()] == NAMES
        list(pool.map(lambda name: LocalTokens(file).remove(name), NAMES[::2]))
    left = LocalTokens(file)
    assert [entry.name for entry in left.entries()] == NAMES[1::2]
    assert left.principal(tokens[NAMES[0]]) is None and left.principal(tokens[NAMES[1]]) is not None


def test_the_file_holds_digests_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = LocalTokens(file).add("ci", ["read"])
    assert token not in file.read_text() and file.stat().st_mode & 0o777 == 0o600
