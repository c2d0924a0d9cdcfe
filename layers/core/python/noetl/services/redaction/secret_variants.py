"""What in a credential is a secret, and the ways it may be written.

Forms are numbered by their place in ``forms_of``: a pipeline that waits knows its secrets by these numbers, so new forms are added at the
end.
"""

from __future__ import annotations

import base64
import html
import json
import quopri
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from noetl.domain import codec

MIN_LENGTH = 4
"""Shorter texts are not taken out: they would take ordinary words with them."""
MIN_DIGITS = 6
"""Of a number that counts as a secret; shorter ones are ports, sizes and seconds."""
MIN_LINE = 8
MAX_PARTS = 4096
MAX_FURTHER = 256
"""Parts of a secret that are looked for in rarer forms as well."""
PUBLIC_FIELDS = frozenset(
    {
        *("host", "hostname", "port", "user", "username", "login", "db", "dbname", "database", "schema"),
        *("sslmode", "type", "kind", "name", "region", "account", "warehouse", "role", "project", "bucket"),
        *("url", "endpoint", "base_url", "header", "scheme", "driver", "timeout", "application_name"),
        *("client_id", "tenant", "scope", "path", "method", "role_arn", "location", "dataset", "client_auth"),
        *("token_url", "auth_uri", "token_uri", "project_id", "client_email", "universe_domain", "audience"),
        *("auth_provider_x509_cert_url", "client_x509_cert_url", "resource", "db_host", "db_port"),
        *("db_user", "db_name", "environment", "endpoint_url", "session_name", "role_session_name"),
    }
)
"""Fields of a credential that are no secrets, unless they hold a password; every other text in it is a secret."""
_WORDS = frozenset(
    {"true", "false", "none", "null", "require", "disable", "prefer", "verify-full", "verify-ca"}
)
"""Settings, wherever they stand."""
_WHOLE = ";/?:@&=+$,#!'()*"
"""What stays as it is where a whole address is encoded."""
_PERCENT = re.compile("%[0-9A-F]{2}")
_COPIED = dict(zip("\\\b\f\n\r\t\v", ("\\\\", "\\b", "\\f", "\\n", "\\r", "\\t", "\\v"), strict=True))
_USERINFO = re.compile(r"://[^\s/:@]*:([^\s/]+)@")
_SETTING = re.compile(
    r"(?:password|passwd|pwd|secret|token|key|sig|signature)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|\"([^\"]*)\"|([^\s;&'\"]+))",
    re.IGNORECASE,
)


def secret_texts(
    value: Any, path: tuple[Any, ...] = (), *, public: bool = False
) -> Iterator[tuple[list[Any], str]]:
    """Yield (path, text) of each secret in a credential's data; for a number, its digits."""
    if isinstance(value, str):
        fine = len(value) >= MIN_LENGTH and value.lower() not in _WORDS
        if fine and (not public or _hides_password(value)):
            yield list(path), value
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            yield from secret_texts(entry, (*path, name), public=str(name).lower() in PUBLIC_FIELDS)
    elif isinstance(value, (list, tuple)):
        for place, entry in enumerate(value):
            yield from secret_texts(entry, (*path, place), public=public)
    elif (
        isinstance(value, int)
        and not isinstance(value, bool)
        and not public
        and abs(value) >= 10 ** (MIN_DIGITS - 1)
    ):
        yield list(path), str(value)


def _hides_password(text: str) -> bool:
    return _USERINFO.search(text) is not None


def forms_of(secret: str) -> list[str]:
    """Return the spellings of a secret, itself first, then those of its parts.

    The list is always the same for the same secret.
    """
    found = dict.fromkeys((*_first_forms(secret), *_more_forms(secret)))
    parts = _parts(secret)
    for part in parts:
        found |= dict.fromkeys((*_first_forms(part), *_more_forms(part)))
    for text in (secret, *parts[:MAX_FURTHER]):
        found |= dict.fromkeys(_further_forms(text))
    for text in (secret, *parts[:MAX_FURTHER]):
        for data in _as_bytes(text):
            found |= dict.fromkeys(_base64_at_end(data))
    for text in (secret, *parts[:MAX_FURTHER]):
        found |= dict.fromkeys(_rarest_forms(text))
    return [form for form in found if len(form) >= MIN_LENGTH]


def gapped_forms(secret: str) -> tuple[list[bytes], list[bytes]]:
    """Return the spellings of a secret and its parts (in hexadecimal, in base64).

    The search finds them with separators and line ends inside, too.
    """
    texts = (secret, *_parts(secret)[:MAX_FURTHER])
    data = [one for text in texts for one in _as_bytes(text)]
    return [one.hex().encode() for one in data], [
        core.encode() for one in data for core in (*_base64(one), *_base64_at_end(one))
    ]


def byte_forms(secret: str) -> list[bytes]:
    """Return a secret and its parts as files of other encodings hold them."""
    texts = (secret, *_parts(secret)[:MAX_FURTHER])
    found = [one for text in texts for one in _as_bytes(text)[1:]]
    return [one for one in found if len(one) >= MIN_LENGTH]


def _first_forms(secret: str) -> list[str]:
    data = secret.encode("utf-8", "surrogatepass")
    found = [secret, escaped(secret), in_ascii(secret), quote(data, safe="")]
    found += _base64(data)
    for text in dict.fromkeys((*found[:3], escaped(found[1]), in_ascii(found[2]))):
        found += [text, *_in_addresses(text)]
    return found


def _more_forms(secret: str) -> list[str]:
    """Return a secret in hexadecimal, HTML, XML, literals, and base64 within base64.

    The literals are those of Python and SQL. Base64 within base64 is, for example, a header that a token echoes.
    """
    data = secret.encode("utf-8", "surrogatepass")
    quoted = html.escape(secret)
    shown = [repr(secret)[1:-1], ascii(secret)[1:-1], repr(data)[2:-1]]
    shown += [text.replace("'", "\\'") for text in shown if "\\'" not in text]
    found = [
        data.hex(),
        data.hex().upper(),
        quoted,
        quoted.replace("&#x27;", "&apos;"),
        quoted.replace("&#x27;", "&#39;"),
    ]
    found += [html.escape(secret, quote=False), secret.replace("'", "''"), *shown, *map(escaped, shown)]
    return found


def _further_forms(secret: str) -> list[str]:
    """Return a secret in rarer spellings.

    They have quotes doubled (CSV, SQL) or escaped in other dialects, base32, UTF-16, and base64 of base64.
    """
    found: list[str] = []
    within = escaped(secret)
    for text in dict.fromkeys((secret, within, in_ascii(secret), escaped(within), in_ascii(within))):
        doubled = text.replace('"', '""')
        found += [doubled, doubled.replace('"', '""'), escaped(doubled), text.replace("'", "''")]
        found += [text.replace('"', '\\"'), text.replace("\\", "\\\\").replace('"', '\\"'), _copied(text)]
        found += [text.replace("'", "\\'"), text.replace(" ", "+")]
    data, *others = _as_bytes(secret)
    found += _base32(data)
    for core in dict.fromkeys(_base64(data)):
        found += _base64(core.encode())
    for other in others:
        found += [other.hex(), other.hex().upper(), other.decode("latin-1"), *_base64(other)]
        found.append(other.strip(b"\0").decode("latin-1"))
    return found


def _rarest_forms(secret: str) -> list[str]:
    """Return a secret in octal escapes, as quoted-printable, in base85 and reversed."""
    data = secret.encode("utf-8", "surrogatepass")
    found = ["".join(f"\\{byte:03o}" for byte in data)]
    found.append("".join(chr(byte) if byte < 0x80 else f"\\{byte:03o}" for byte in data))
    found += map(escaped, found[:])
    found += [_printable(data, *way) for way in ((True, False), (False, False), (False, True))]
    return [*found, *_base85(data), secret[::-1]]


def _printable(data: bytes, spaces: bool, header: bool) -> str:
    """Return quoted-printable without its line ends. ``spaces``: they are encoded, too."""
    text = quopri.encodestring(data, quotetabs=spaces, header=header)
    return text.replace(b"=\n", b"").decode("latin-1")


def _base85(data: bytes) -> list[str]:
    """Return the groups of base85 that depend on ``data`` alone.

    They are in Python's alphabet and in Adobe's. A group is four bytes. There is one text for each place in a group at
    which ``data`` may begin, and the whole of ``data`` alone.
    """
    found: list[str] = []
    for encode in (base64.b85encode, base64.a85encode):
        found.append(encode(data).decode())
        for first in range(4) if len(data) >= 12 else ():
            found.append(encode(data[first : first + (len(data) - first) // 4 * 4]).decode())
    return found


def _as_bytes(text: str) -> list[bytes]:
    """Return a text in UTF-8, in UTF-16 of both byte orders, and in Windows-1252."""
    found = [text.encode(code, "surrogatepass") for code in ("utf-8", "utf-16-le", "utf-16-be")]
    return [*found, *([] if text.isascii() else [text.encode("cp1252", "ignore")])]


def _base64(data: bytes) -> list[str]:
    """Return the parts of base64 that depend on ``data`` alone, in both alphabets.

    There is one for each place at which ``data`` may begin within a longer text.
    """
    found: list[str] = []
    for before in range(3) if len(data) >= 6 else ():
        whole = base64.b64encode(b"\0" * before + data).decode()
        core = whole[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        found += [core, core.replace("+", "-").replace("/", "_")]
    return found


def _base64_at_end(data: bytes) -> list[str]:
    """Return what ``_base64`` does, for ``data`` at the end of the encoded bytes.

    The last letter is included: it holds bits of the last byte, and zeros.
    """
    found: list[str] = []
    for before in range(3) if len(data) >= 6 else ():
        if (before + len(data)) % 3:
            whole = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
            core = whole[(before * 8 + 5) // 6 :]
            found += [core, core.replace("+", "-").replace("/", "_")]
    return found


def _base32(data: bytes) -> list[str]:
    """Return the parts of base32 that depend on ``data`` alone.

    They are in capital and in small letters, and in the alphabet that keeps order.
    """
    found: list[str] = []
    for before in range(5) if len(data) >= 5 else ():
        for encode in (base64.b32encode, base64.b32hexencode):
            whole = encode(b"\0" * before + data).decode()
            core = whole[(before * 8 + 4) // 5 : (before + len(data)) * 8 // 5]
            found += [core, core.lower()]
    return found


def _copied(text: str) -> str:
    """Write text as COPY of Postgres does."""
    return "".join(_COPIED.get(char, char) for char in text)


def _parts(secret: str) -> list[str]:
    """Return the secrets inside a secret.

    They are the password of an address or of settings, texts of JSON, and lines of a key.
    """
    found: dict[str, None] = {}
    waiting = [secret]
    while waiting and len(found) < MAX_PARTS:
        for part in _inside(waiting.pop()):
            if len(part) >= MIN_LENGTH and part != secret and part not in found:
                found[part] = None
                waiting.append(part)
    return list(found)


def _inside(text: str) -> Iterator[str]:
    for password in _USERINFO.findall(text):
        yield from (password, unquote(password), unquote_plus(password))
    for match in _SETTING.findall(text):
        for given in match:
            if given:
                yield from (given, re.sub(r"\\(.)", r"\1", given), unquote(given))
    if text[:1] in "{[":
        yield from (inner for _, inner in secret_texts(_json(text)))
    if "\n" in text:
        lines = (line.strip() for line in text.splitlines())
        yield from (line for line in lines if len(line) >= MIN_LINE and not line.startswith("-----"))


def _json(text: str) -> Any:
    try:
        return codec.decode(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


def _in_addresses(text: str) -> list[str]:
    """Return a text percent-encoded as the usual libraries do it.

    That is with or without slashes, as a form, as browsers do, and in an address within an address; with small letters, too.
    """
    data = text.encode("utf-8", "surrogatepass")
    ways = [quote(data, safe=safe) for safe in ("", "/", "!'()*", _WHOLE)]
    ways += [quote_plus(data), quote(ways[0], safe=""), quote(ways[1], safe="")]
    return [*ways, *(_PERCENT.sub(lambda found: found[0].lower(), way) for way in ways)]


def escaped(text: str) -> str:
    """Return a text as JSON writes it."""
    return codec.encode(text).decode("utf-8", "surrogatepass")[1:-1]


def in_ascii(text: str) -> str:
    """Return a text as JSON of ASCII writes it."""
    return json.dumps(text)[1:-1]
