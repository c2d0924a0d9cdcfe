"""``{{ secret.NAME }}``, a secret that older releases read by its name."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, inside, made, map_of, text_of
from noetl.formatting.templates import names_in
from noetl.migration.page import RAW, Page, remove
from noetl.migration.rule import Rule

_ALONE = re.compile(r"\{\{-?\s{0,9}secret\.([A-Za-z]\w*)\s{0,9}-?\}\}")

_ITERATORS = frozenset({"iterator", "element"})


def apply(page: Page) -> None:
    """Read an entry of the keychain, also where the workload has the secret."""
    if "secret" in page.step_names() or map_of(page.root.get("workload")).has("secret"):
        return
    if not any("secret" in names_in(text.value) for text in page.texts()):
        return
    named = _named_by_workload(page)
    places = [entry for entry in inside(page.root) if "secret" in (text_of(entry.value) or "")]
    read: dict[str, Entry] = {}

    def change(name: str, attribute: str | None) -> tuple[str, bool] | None:
        if name == "secret" and attribute is not None:
            read.setdefault(attribute, places[0])
            return f"keychain.{attribute}.value", True
        if name == "workload" and attribute in named:
            return f"keychain.{named[attribute]}.value", True
        return (f"keychain.{named[name]}.value", False) if name in alone else None

    workload = map_of(page.root.get("workload"))
    for name, secret in named.items():
        entry = next(one for one in workload.entries if one.key == name)
        read.setdefault(secret, entry)
        remove(workload, entry)
    alone = named.keys() - page.step_names() - _other_names(page)
    page.substitute(change)
    _put(page, read)


def _named_by_workload(page: Page) -> dict[str, str]:
    """Return the entries of the workload that are a secret alone, and that no code names."""
    entries = map_of(page.root.get("workload")).entries
    found = {str(one.key): _ALONE.fullmatch((text_of(one.value) or "").strip()) for one in entries}
    codes = [text_of(one.value) or "" for one in inside(page.root) if one.key in RAW]
    return {
        name: match[1]
        for name, match in found.items()
        if match is not None and not any(name in code for code in codes)
    }


def _other_names(page: Page) -> set[str]:
    """Return what may be an argument or an iterator, which a name alone would be."""
    found = {str(one.key) for one in inside(page.root)}
    return found | {text_of(one.value) or "" for one in inside(page.root) if one.key in _ITERATORS}


def _put(page: Page, read: dict[str, Entry]) -> None:
    """Add the entries of the keychain; a note says what to register."""
    root = page.root
    keychain = root.entry("keychain")
    if keychain is None and read:
        keychain = root.put("keychain", List([]))
        place = next((at for at, one in enumerate(root.entries) if one.key in ("workbook", "workflow")), None)
        if place is not None:
            root.entries.remove(keychain)
            root.entries.insert(place, keychain)
    known = keychain.value.values() if keychain is not None and isinstance(keychain.value, List) else []
    names = {text_of(map_of(one).get("name")) for one in known}
    for name, entry in read.items():
        page.note(entry, f"register the credential `{name}` of type generic with the field `value`")
        if keychain is not None and isinstance(keychain.value, List) and name not in names:
            keychain.value.entries.append(
                Entry(None, made({"name": name, "kind": "generic"}), line=entry.line)
            )


RULE = Rule("secret-names", "A secret is an entry of the keychain, which tools read.", apply)
