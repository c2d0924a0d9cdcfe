"""Hosting of the web UI: who signs people in, under which name, and what is in front (docs/hosted-ui.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class UiConfig:
    """The web UI on S3 and CloudFront, with the API below the same address; for ``auth: jwt``.

    ``client_id``: of a public client (no secret, code flow with PKCE) at the issuer of ``api.jwt_issuer``. ``scopes``: what it asks for.
    ``authorize_url``, ``token_url``, ``sign_out_url``: where the issuer has them on another host than its own, as Cognito has; otherwise
    they are read from its discovery document. ``parameters``: further ones of the authorization request (``audience`` of Auth0).
    """

    client_id: str = ""
    scopes: tuple[str, ...] = ("openid",)
    authorize_url: str = ""
    token_url: str = ""
    sign_out_url: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    domain_name: str = ""
    certificate_arn: str = ""
    """Of a certificate in us-east-1, where CloudFront reads them."""
    web_acl_arn: str = ""
    """A web ACL for CloudFront (made in us-east-1) that exists, such as one of your firewall team."""

    def origins(self, issuer: str) -> list[str]:
        """Return the origins that the page sends requests to, beside its own."""
        return list(dict.fromkeys(_origin(url) for url in (issuer, self.token_url) if url))

    def sign_in(self, issuer: str) -> dict[str, object]:
        """Return what the page reads from ``sign-in.json``; empty where no person signs in."""
        if not issuer:
            return {}
        endpoints = {
            "authorization_endpoint": self.authorize_url,
            "token_endpoint": self.token_url,
            "end_session_endpoint": self.sign_out_url,
        }
        return {
            "issuer": issuer.rstrip("/"),
            "client_id": self.client_id,
            "scope": " ".join(self.scopes),
            "parameters": dict(self.parameters),
            **{name: url for name, url in endpoints.items() if url},
        }


def ui_problems(ui: UiConfig, auth: str, *, local: bool) -> Iterator[str]:
    """What is wrong with the hosting of the UI in an environment."""
    if local:
        return
    if auth != "jwt":
        yield (
            f"ui needs auth jwt, and this environment has {auth}: a browser has no AWS credentials, and CloudFront cannot pass "
            "on a signature; `noetl ui --context NAME` serves the UI on the operator's machine and signs"
        )
    if not ui.client_id:
        yield "ui needs the client_id of a public client at the issuer (-c ui_client_id=…)"
    for name in ("authorize_url", "token_url", "sign_out_url"):
        url: str = getattr(ui, name)
        if url and urlsplit(url).scheme != "https":
            yield f"ui.{name} {url!r} is no https address"
    if bool(ui.authorize_url) != bool(ui.token_url):
        yield "ui.authorize_url and ui.token_url go together; without both the issuer's discovery document names them"
    if bool(ui.domain_name) != bool(ui.certificate_arn):
        yield "ui.domain_name and ui.certificate_arn go together"
    if ui.certificate_arn and ":us-east-1:" not in ui.certificate_arn:
        yield f"ui.certificate_arn {ui.certificate_arn!r} is not in us-east-1, where CloudFront reads certificates"
    if ui.web_acl_arn and not re.fullmatch(
        r"arn:aws[a-z-]*:wafv2:us-east-1:\d{12}:global/webacl/[\w-]+/[0-9a-f-]+", ui.web_acl_arn
    ):
        yield (
            f"ui.web_acl_arn {ui.web_acl_arn!r} is no ARN of a web ACL for CloudFront "
            "(arn:aws:wafv2:us-east-1:123456789012:global/webacl/NAME/ID)"
        )


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
