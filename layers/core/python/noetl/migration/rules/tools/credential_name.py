"""Credentials that are named by ``credential``, or by a mapping around their name.

``credentialRef`` is another spelling of it.
"""

from __future__ import annotations

from noetl.formatting.nodes import Map, Value, comments, inside, map_of, text_of
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_NAMED = frozenset({"postgres", "duckdb", "snowflake", "http", "gcs", "s3", "transfer"})
_SCHEMES = frozenset({"httpBearerAuth", "httpBasicAuth"})
"""What generation 1 called the credential of an API by; which of them it is, the type of the credential says here."""
_OF_CALLS = {"authentication": frozenset({"genericCredentialType"}), "genericAuthType": _SCHEMES}
_ALONE = ("credential", "credentialRef", "credential_ref")
_AROUND = frozenset({"type", "tool", "source", "credential", "key", "name"})


def apply(page: Page) -> None:
    """Write ``auth: name``."""
    for tool in page.tools():
        if kind_of(tool) not in _NAMED:
            continue
        if kind_of(tool) == "http":
            _of_call(tool)
        for word in _ALONE:
            if tool.has(word) and not tool.has("auth"):
                tool.rename(word, "auth")
        for owner in (tool, tool.get("source"), tool.get("target")):
            if not isinstance(owner, Map):
                continue
            auth = owner.entry("auth")
            name = _name(auth.value) if auth is not None else None
            if auth is not None and name is not None and kind_of(tool) not in ("http", "duckdb"):
                auth.value = name


def _of_call(tool: Map) -> None:
    """Take ``credentials: { httpBearerAuth: { name: x } }``."""
    given = tool.entry("credentials")
    block = map_of(given.value) if given is not None else Map([])
    if given is None or tool.has("auth") or len(block.entries) != 1 or block.entries[0].key not in _SCHEMES:
        return
    name = map_of(block.entries[0].value).get("name")
    words = {word: text_of(tool.get(word)) for word in _OF_CALLS if tool.has(word)}
    if (
        text_of(name) is None
        or name is None
        or any(value not in _OF_CALLS[word] for word, value in words.items())
    ):
        return
    if words.get("genericAuthType", block.entries[0].key) != block.entries[0].key:
        return
    given.lead += [comment for entry in inside(block) for comment in comments(entry)]
    given.value = name
    tool.rename("credentials", "auth")
    for word in words:
        remove(tool, next(one for one in tool.entries if one.key == word))


def _name(value: Value) -> Value | None:
    if isinstance(value, Map) and len(value.entries) == 1 and isinstance(value.entries[0].value, Map):
        return _name(value.entries[0].value)
    if not isinstance(value, Map) or not set(value.keys()) <= _AROUND:
        return None
    if value.has("source") and text_of(value.get("source")) != "credential":
        return None
    found = value.get("credential", "key", "name")
    return found if text_of(found) is not None else None


RULE = Rule("credential-name", "`auth` is the name of a credential.", apply)
