"""The network guard: decides which addresses a playbook may reach.

A URL is read once, strictly, so that no second reader can see another host in it. A name is resolved once, and the
answer holds for some seconds (``Names``). For each connection every address that the name has must be allowed, and the
connection is made to exactly such an address (``http.connection``), again for each redirect. What a name resolves to
later, or what another parser would have made of the URL, has no effect.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import quote, urljoin

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import TaskError
from noetl.kinds.support.idle_connections import Moment, read_clocks

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_URL = 16_384
NAMES_SECONDS = 10.0
"""How long an answer of DNS holds. The system's resolver does not tell for how long it would."""
NAMES_KEPT = 1024
HOSTS_KEPT = 256
"""Spellings of hosts that need not be read again."""

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:\#.*)?",
    re.DOTALL,
)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@]+)(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PATH_SAFE = "/:@!$&'()*+,;=-._~%[]"
_QUERY_SAFE = _PATH_SAFE + "?"
_PLAIN = re.compile(r"[A-Za-z0-9/:@!$&'()*+,;=._~%\[\]-]*")
"""What is sent as it was written: letters, digits and ``_PATH_SAFE``."""

_SPECIAL: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, where clouds serve metadata"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("64:ff9b:1::/48", "local NAT64"),
    ("100::/64", "discard"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "documentation"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_SPECIAL_NETWORKS: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(text), name) for text, name in _SPECIAL
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")


@dataclass(frozen=True, slots=True)
class Target:
    """A URL taken apart: what to connect to and what to ask for."""

    scheme: str
    host: str
    """Lower case, IDNA-encoded; an IPv6 address has no brackets."""
    port: int
    path: str
    """Path and query as sent, percent-encoded."""

    @property
    def authority(self) -> str:
        """``host[:port]`` as the Host header and the URL show it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Credentials never travel from one origin to another."""
        return self.scheme, self.host, self.port


def parse_url(url: str) -> Target:
    """Read a URL.

    Raises TaskError(kind="client_error", code="url_invalid") for all that is not plainly one.
    """
    text = url.strip()
    if not text or len(text) > MAX_URL:
        raise _invalid(
            text, f"it has {len(text)} characters, at most {MAX_URL} are allowed" if text else "it is empty"
        )
    if _CONTROL.search(text):
        raise _invalid(text, "it contains a control character (such as a line break)")
    if "\\" in text:
        raise _invalid(text, "it contains a backslash, which programs read in different ways")
    match = _URL.fullmatch(text)
    if match is None:
        raise _invalid(text, "it is not absolute", "write http://host/path or https://host/path")
    scheme = match["scheme"].lower()
    if scheme not in DEFAULT_PORTS:
        raise _invalid(text, f"the scheme {scheme!r} is not http or https")
    authority = match["authority"]
    if "@" in authority:
        raise _invalid("(not shown)", "it carries a user name or password", "use `auth`")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise _invalid(text, f"{authority!r} is not a host with an optional port")
    port = int(parts["port"]) if parts["port"] else DEFAULT_PORTS[scheme]
    if not 0 < port < 65536:
        raise _invalid(text, f"{port} is not a port")
    return Target(scheme, _host(parts["host"], text), port, _path(match["path"], match["query"], text))


def joined(base: str, reference: str) -> Target:
    """Join ``reference`` to ``base``. Raises TaskError as ``parse_url``."""
    try:
        return parse_url(urljoin(base, reference))
    except ValueError as error:  # urljoin's, of brackets that do not fit
        shown = "(not shown)" if "@" in reference else reference
        raise _invalid(shown, f"it is not an address: {error}") from None


def _path(path: str, query: str | None, url: str) -> str:
    if path and _PLAIN.fullmatch(path) and (query is None or _PLAIN.fullmatch(query)):
        return path if query is None else f"{path}?{query}"
    try:
        encoded = quote(path or "/", safe=_PATH_SAFE)
        return encoded if query is None else f"{encoded}?{quote(query, safe=_QUERY_SAFE)}"
    except UnicodeEncodeError:
        raise _invalid(url, "it contains half a character (a lone surrogate)") from None


def _host(host: str, url: str) -> str:
    try:
        return _read_host(host)
    except _NoHostError as error:
        raise _invalid(url, *error.args) from None


class _NoHostError(Exception):
    """Why it is none, and what to write instead."""


@lru_cache(HOSTS_KEPT)
def _read_host(host: str) -> str:
    """Normalize a host as it is connected to. Raises _NoHostError."""
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise _NoHostError(f"{host} is not an IPv6 address") from None
    try:
        ascii_host = host.lower() if host.isascii() else host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise _NoHostError(f"{host!r} is not a host name") from None
    labels = ascii_host.removesuffix(".").split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        # Resolvers read 2130706433, 0177.0.0.1 and 127.1 as addresses; here an address has one spelling.
        try:
            return str(ipaddress.IPv4Address(ascii_host))
        except ValueError:
            raise _NoHostError(
                f"{host!r} looks like a number but is no plain IPv4 address", "write four decimal numbers"
            ) from None
    if len(ascii_host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _NoHostError(f"{host!r} is not a host name")
    return ascii_host


def _invalid(url: str, why: str, hint: str | None = None) -> TaskError:
    shown = url if len(url) <= 200 else url[:200] + "…"
    return TaskError(
        f"the URL {shown!r} is refused: {why}", kind="client_error", code="url_invalid", hint=hint
    )


def why_internal(address: Address) -> str | None:
    """Return the kind of special address this is, or None for a public one.

    Kinds are ``loopback``, ``private`` … An IPv6 address that carries an IPv4 address (mapped, compatible, NAT64, 6to4) is judged by
    what it carries.
    """
    carried = _carried(address)
    if carried is not None:
        return why_internal(carried)
    for network, name in _SPECIAL_NETWORKS:
        if address in network:
            return name
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return "reserved"
    return None


def _carried(address: Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    low = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.ipv4_mapped is not None or address in _NAT64:
        return low
    if address in _IPV4_COMPATIBLE and int(address) > 1:
        return low
    return address.sixtofour


@lru_cache(16)
def allowed_of(entries: tuple[str, ...]) -> Allowed:
    """Return the same ``Allowed`` each time: its entries are read once."""
    return Allowed(entries)


@dataclass(frozen=True)
class Allowed:
    """Internal places that a deployment lets playbooks reach.

    They are host names, addresses, and networks (CIDR).
    """

    entries: tuple[str, ...] = ()

    @cached_property
    def _networks(self) -> tuple[Network, ...]:
        return tuple(network for entry in self.entries if (network := _network(entry)) is not None)

    @cached_property
    def _hosts(self) -> frozenset[str]:
        return frozenset(entry.strip().lower() for entry in self.entries if _network(entry) is None)

    def check(self, host: str, address: Address) -> None:
        """Raise TaskError(code="address_refused") when ``host`` may not be reached there."""
        reason = why_internal(address)
        if reason is None or host in self._hosts:
            return
        plain = _carried(address) or address
        if any(plain in network or address in network for network in self._networks):
            return
        where = str(address) if host == str(address) else f"{host} ({address})"
        raise TaskError(
            f"{where} is refused: it is an internal address ({reason})",
            kind="client_error",
            code="address_refused",
            hint="the deployment's http_allow setting (NOETL_HTTP_ALLOW) can allow this host or network",
            details={"host": host, "address": str(address)},
        )


def _network(entry: str) -> Network | None:
    try:
        return ipaddress.ip_network(entry.strip().strip("[]"), strict=False)
    except ValueError:
        return None


def resolve(host: str, port: int, timeout: float) -> list[Address]:
    """Resolve ``host`` to its addresses, in the order to try them.

    Raises TaskError kind ``connection`` (code ``dns_failed``) or ``timeout`` (code ``dns_timeout``), both retryable.
    """
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    found: list[Address] = []
    failure: list[OSError] = []

    def ask() -> None:
        try:
            for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                # An IPv6 place may carry a zone ("fe80::1%eth0"): it is judged without.
                address = ipaddress.ip_address(str(place[0]).partition("%")[0])
                if address not in found:
                    found.append(address)
        except (OSError, UnicodeError) as error:
            failure.append(error if isinstance(error, OSError) else OSError(str(error)))

    # The system's resolver cannot be interrupted: it is left behind when time is up.
    asking = threading.Thread(target=ask, name="noetl-resolve", daemon=True)
    asking.start()
    asking.join(timeout)
    if asking.is_alive():
        raise TaskError(
            f"{host} could not be resolved within {timeout:.3g} s",
            kind="timeout",
            code="dns_timeout",
            retryable=True,
        )
    if failure or not found:
        why = (failure[0].strerror or str(failure[0])) if failure else "it has no address"
        raise TaskError(
            f"{host} could not be resolved: {why}",
            kind="connection",
            code="dns_failed",
            retryable=True,
            hint="correct the host in the address, or the name service of the machine that runs the task",
        )
    return found


class Names:
    """Answers of DNS, kept for some seconds.

    They permit nothing: every caller that connects asks the guard about each address. Failures are not kept. Safe to share between
    threads.
    """

    def __init__(
        self,
        seconds: float = NAMES_SECONDS,
        most: int = NAMES_KEPT,
        now: Callable[[], Moment] = read_clocks,
    ) -> None:
        self._seconds = seconds
        self._now = now
        self._answers: LruCache[str, tuple[Moment, tuple[Address, ...]]] = LruCache(most)

    def resolve(self, host: str, port: int, timeout: float) -> tuple[Address, ...]:
        """Resolve every address of ``host``, in the order to try them.

        Raises TaskError as ``resolve``.
        """
        began_at = self._now()
        known = self._answers.get(host)
        if known is not None and known[0].age(began_at) < self._seconds:
            return known[1]
        found = tuple(resolve(host, port, timeout))
        # It holds from when it was asked for: an answer that took long is as old.
        self._answers.put(host, (began_at, found))
        return found

    def forget(self, host: str) -> None:
        """Ask again next time: nothing answered there."""
        self._answers.pop(host)

    def clear(self) -> None:
        self._answers.clear()


NAMES = Names()
"""Shared by every task of the process."""
