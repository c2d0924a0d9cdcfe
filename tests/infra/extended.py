"""Dev with everything that may be added to it, which tests of each addition share: its synthesis takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from infra.config import Access, AlarmsConfig, ContainersConfig, NetworkConfig
from infra.environments import load_environment
from infra.trigger_queues import TriggersConfig
from infra.ui_config import UiConfig
from noetl.kinds.registry import Registry
from tests.infra.made_up import kind, registry_with

PLAYBOOKS = "tests/infra/playbooks"
SHARED = "arn:aws:sqs:eu-central-1:210987654321"
ISSUER = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_abc"
TOKENS = "https://acme.auth.eu-central-1.amazoncognito.com/oauth2/token"
ACL = "arn:aws:wafv2:us-east-1:123456789012:global/webacl/company/0a1b2c3d-0000-0000-0000-000000000000"
SIGN_IN = {"jwt_issuer": ISSUER, "jwt_audience": "noetl-ui", "ui_client_id": "noetl-ui"}
"""What the command line says about an environment whose API and web UI share an issuer."""


def extended_kinds() -> Registry:
    """Two more kinds, an ordinary and a long-running one."""
    return registry_with(kind("kafka", pool="cpu"), kind("spark", long_running=True))


def extensions() -> Mapping[str, object]:
    """Containers, queues of others, endpoints, a cluster that RDS named, and the web UI behind a firewall of the company."""
    dev = load_environment("dev")
    access = {"duckdb": (Access(actions=("s3:GetObject",), resources=("arn:aws:s3:::lake/*",)),)}
    return {
        "workers": replace(dev.workers, access=access),
        "containers": ContainersConfig(),
        "triggers": TriggersConfig(queues=("noetl-dev-in-*", "orders", f"{SHARED}:in-*")),
        "database": replace(dev.database, identifier=None),
        "alarms": AlarmsConfig(topic_arn="arn:aws:sns:eu-central-1:123456789012:ops"),
        "network": NetworkConfig(egress="endpoints"),
        "ui": UiConfig(
            client_id="noetl-ui",
            scopes=("openid", "noetl/read"),
            authorize_url="https://acme.auth.eu-central-1.amazoncognito.com/oauth2/authorize",
            token_url=TOKENS,
            domain_name="noetl.example.com",
            certificate_arn="arn:aws:acm:us-east-1:123456789012:certificate/1",
            web_acl_arn=ACL,
        ),
    }


def write_ui(folder: Path) -> None:
    """Write what a build of the web UI leaves."""
    (folder / "assets").mkdir()
    for name in ("index.html", "favicon.svg", "assets/index-1.js", "assets/index-1.js.br"):
        (folder / name).write_text(name)
