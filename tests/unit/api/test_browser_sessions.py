"""Sessions of browsers by themselves: how long codes and sessions live, whom they stand for, and what is kept of them."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec.structs import replace

from noetl.api.http.browser_sessions import (
    CODE_SECONDS,
    IDLE_SECONDS,
    LIFE_SECONDS,
    MOST_CODES,
    MOST_SESSIONS,
    SEEN_SECONDS,
    BrowserSessions,
)
from noetl.api.http.local_tokens import LocalTokens
from noetl.api.http.problems import ForbiddenError, UnauthenticatedError
from noetl.domain.errors import InfrastructureError, NotFoundError

HERE = {"host": "127.0.0.1:8765", "sec-fetch-site": "same-origin"}


class Ground:
    def __init__(self, folder, public_url: str = "") -> None:
        self.now = 1_000_000.0
        self.path = folder / "sessions.json"
        self.tokens = LocalTokens(folder / "tokens.json")
        self.owner = self.tokens.principal(self.tokens.add("owner", ["read", "execute"]))
        self.public_url = public_url
        self.sessions = self.begun_again()

    def begun_again(self) -> BrowserSessions:
        return BrowserSessions(self.path, self.tokens, lambda: self.now, self.public_url)

    def enter(self, scopes=("read", "execute"), headers=HERE):
        """Begin a session; gives the headers of its requests."""
        opened = self.sessions.open(self.sessions.code(self.owner, frozenset(scopes)), headers)
        cookie = opened.header.partition(";")[0]
        return {**headers, "cookie": cookie, "x-csrf-token": opened.csrf}


@pytest.fixture
def ground(tmp_path) -> Ground:
    return Ground(tmp_path)


def refused(code: str, family: type = ForbiddenError):
    return pytest.raises(family, check=lambda error: error.code == code)


def test_a_code_is_good_for_a_minute_and_once(ground):
    code = ground.sessions.code(ground.owner, frozenset({"read"}))
    ground.now += CODE_SECONDS - 1
    ground.sessions.open(code, HERE)
    with refused("session_code_invalid"):
        ground.sessions.open(code, HERE)
    late = ground.sessions.code(ground.owner, frozenset({"read"}))
    ground.now += CODE_SECONDS
    with refused("session_code_invalid"):
        ground.sessions.open(late, HERE)
    first, *_ = [ground.sessions.code(ground.owner, frozenset({"read"})) for _ in range(MOST_CODES + 1)]
    with refused("session_code_invalid"):
        ground.sessions.open(first, HERE)


def test_another_user_of_the_machine_cannot_trade_a_code(ground, tmp_path):
    """The address with the code is an argument of the browser's process: every user can read it."""
    mine = frozenset({"read"})
    code = ground.sessions.code(ground.owner, mine, 1000)
    with refused("session_code_invalid"):
        ground.sessions.open(code, HERE, lambda: 65534)
    with refused("session_code_invalid"):
        ground.sessions.open(code, HERE, lambda: 1000)
    for asked, trades in ((1000, 1000), (1000, None), (None, 1000)):
        ground.sessions.open(ground.sessions.code(ground.owner, mine, asked), HERE, lambda user=trades: user)
    (tmp_path / "proxied").mkdir()
    proxied = Ground(tmp_path / "proxied", "https://noetl.example")
    there = {"host": "noetl.example", "origin": "https://noetl.example", "sec-fetch-site": "same-origin"}
    proxied.sessions.open(proxied.sessions.code(proxied.owner, mine, 1000), there, lambda: 33)


def test_no_account_crowds_out_the_codes_and_sessions_of_another(ground):
    headers = ground.enter()
    code = ground.sessions.code(ground.owner, frozenset({"read"}))
    viewer = ground.tokens.principal(ground.tokens.add("viewer", ["read"]))
    codes = [ground.sessions.code(viewer, frozenset({"read"})) for _ in range(MOST_CODES)]
    ground.now += 1
    assert ground.sessions.open(code, HERE).session.account == "token:owner"
    with refused("session_code_invalid"):
        ground.sessions.open(codes[0], HERE)
    made = ground.sessions.entries()[0]
    many = [
        replace(made, id=str(one), cookie=str(one), account=viewer.account) for one in range(MOST_SESSIONS)
    ]
    ground.path.write_bytes(msgspec.json.encode([*ground.sessions.entries(), *many][:MOST_SESSIONS]))
    ground.sessions.open(codes[-1], HERE)
    assert ground.sessions.find(headers) is not None
    assert len(json.loads(ground.path.read_bytes())) == MOST_SESSIONS


def test_a_session_lives_twelve_hours_without_a_request_and_seven_days_with(ground):
    idle, used = ground.enter(), ground.enter()
    for _ in range(int(LIFE_SECONDS // (IDLE_SECONDS - 1))):
        ground.now += IDLE_SECONDS - 1
        assert ground.sessions.find(used) is not None
    assert ground.sessions.find(idle) is None
    ground.now = 1_000_000.0 + LIFE_SECONDS
    assert ground.sessions.find(used) is None and ground.sessions.entries() == []


def test_a_session_survives_the_server_and_never_has_more_than_its_token(ground):
    headers, viewer = ground.enter(), ground.enter(["read", "admin"])
    ground.sessions = ground.begun_again()
    session, principal = ground.sessions.find(headers)
    assert (principal.name, principal.scopes) == ("token:owner", {"read", "execute"})
    assert ground.sessions.find(viewer)[1].scopes == {"read"}
    kept = ground.path.read_text()
    assert headers["cookie"].partition("=")[2] not in kept and headers["x-csrf-token"] not in kept
    assert ground.path.stat().st_mode & 0o077 == 0 and len(json.loads(kept)) == 2
    ground.sessions.end(session.id)
    assert ground.sessions.find(headers) is None
    with pytest.raises(NotFoundError):
        ground.sessions.end(session.id)
    ground.tokens.remove("owner")
    assert ground.sessions.find(viewer) is None and ground.sessions.entries() == []


def test_a_token_of_the_same_name_begins_no_sessions_of_the_one_before(ground):
    """An operator who replaces a stolen token gives it the old name."""
    headers = ground.enter()
    code = ground.sessions.code(ground.owner, frozenset({"read"}))
    ground.tokens.remove("owner")
    ground.owner = ground.tokens.principal(ground.tokens.add("owner", ["read", "execute"]))
    assert ground.sessions.entries() == [] and ground.sessions.find(headers) is None
    opened = ground.sessions.open(code, HERE)
    late = {**HERE, "cookie": opened.header.partition(";")[0], "x-csrf-token": opened.csrf}
    assert ground.sessions.find(late) is None
    assert ground.sessions.find(ground.enter()) is not None


def test_two_servers_of_one_home_folder_undo_nothing_of_each_other(ground):
    first, second = ground.sessions, ground.begun_again()
    ended = ground.enter()
    assert second.find(ended) is not None
    kept = ground.enter()
    first.end(first.current(ended).id)
    ground.sessions = second
    other = ground.enter()
    for server in (first, second, ground.begun_again()):
        assert server.find(ended) is None
        assert server.find(kept) is not None and server.find(other) is not None


def test_a_session_that_another_server_has_just_ended_is_not_begun_again(ground, monkeypatch):
    """The moment of its last request would be written after its end."""
    headers = ground.enter()
    first, second = ground.sessions, ground.begun_again()
    session, principal = second.find(headers)
    ground.now += SEEN_SECONDS + 1
    accounts = LocalTokens.of_account

    def ended_meanwhile(self, account):
        monkeypatch.setattr(LocalTokens, "of_account", accounts)
        first.end(session.id)
        return principal

    monkeypatch.setattr(LocalTokens, "of_account", ended_meanwhile)
    assert second.find(headers) is None and ground.begun_again().entries() == []


def test_a_cookie_alone_is_worth_nothing(ground):
    good, other = ground.enter(), ground.enter()
    assert ground.sessions.find({**good, "cookie": f"a=b; {good['cookie']}; c=d"}) is not None
    for stolen in ({**good, "x-csrf-token": ""}, {**good, "x-csrf-token": other["x-csrf-token"]}):
        with refused("csrf_invalid", UnauthenticatedError):
            ground.sessions.find(stolen)
    for place in (
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:8765"},
        {"origin": "null"},
    ):
        with refused("session_origin"):
            ground.sessions.find({**good, **place})
    bare = {name: value for name, value in good.items() if name != "sec-fetch-site"}
    with refused("session_origin"):
        ground.sessions.find(bare)
    assert ground.sessions.find({**bare, "origin": "http://127.0.0.1:8765"}) is not None
    assert ground.sessions.find({**good, "host": "evil.example:8766"}) is None, (
        "another port has another cookie"
    )
    with refused("session_host"):
        ground.sessions.find({**good, "host": "evil.example:8765"})


def test_behind_tls_the_cookie_is_secure_and_the_host_is_the_public_one(tmp_path):
    ground = Ground(tmp_path, "https://noetl.example")
    there = {"host": "noetl.example", "origin": "https://noetl.example"}
    opened = ground.sessions.open(ground.sessions.code(ground.owner, frozenset({"read"})), there)
    assert opened.header.startswith("__Host-noetl_session=") and opened.header.endswith(
        "SameSite=Strict; Secure"
    )
    plain = Ground(tmp_path / "..", "http://noetl.example")
    with refused("session_host"):
        plain.sessions.open("x", {"host": "noetl.example", "origin": "http://noetl.example"})


def test_a_damaged_file_is_named(ground):
    ground.path.write_text("{")
    with pytest.raises(InfrastructureError, match=r"sessions\.json"):
        ground.begun_again().entries()
