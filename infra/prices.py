"""The price table: list prices in US dollars, us-east-1, without free tiers, discounts or taxes.

From general knowledge, not looked up. Check what matters to you against the price pages of AWS before you rely on it. Prices of requests:
tests/bench/prices.py.
"""

from __future__ import annotations

from types import MappingProxyType

AS_OF = "2026-11"
SOURCE = "from general knowledge, not looked up"
MONTH_HOURS = 730

AURORA_ACU_HOUR = 0.12
INSTANCE_HOUR = MappingProxyType(
    {
        "db.t4g.micro": 0.016,
        "db.t4g.small": 0.032,
        "db.t4g.medium": 0.065,
        "db.t4g.large": 0.129,
        "db.m7g.large": 0.168,
        "db.r7g.large": 0.24,
        "db.r7g.xlarge": 0.478,
    }
)
"""Postgres, one server."""
MACHINE_HOUR = MappingProxyType(
    {
        "t4g.nano": 0.0042,
        "t4g.micro": 0.0084,
        "t4g.small": 0.0168,
        "t4g.medium": 0.0336,
        "t3.nano": 0.0052,
        "t3.micro": 0.0104,
        "t3.small": 0.0208,
    }
)
DISK_GIB_MONTH = 0.08
MACHINE_DISK_GIB = 8
"""Of Amazon's own image."""
DATABASE_GIB_MONTH = 0.115
PROXY_ACU_HOUR, PROXY_LEAST_ACU = 0.015, 8
PROXY_VCPU_HOUR, PROXY_LEAST_VCPU = 0.015, 2
ENDPOINT_HOUR = 0.01
NAT_GATEWAY_HOUR = 0.045
ADDRESS_HOUR = 0.005
"""A public IPv4 address, used or not."""
SECRET_MONTH = 0.40
KEY_MONTH = 1.00
ALARM_MONTH = 0.10
"""Each metric of it."""
DASHBOARD_MONTH = 3.00
METRIC_MONTH = 0.30
FIREWALL_MONTH, FIREWALL_RULE_MONTH = 5.00, 1.00
QUEUE_REQUESTS = 0.40
"""A million requests to SQS."""
LAMBDA_REQUESTS = 0.20
LAMBDA_GB_SECOND = MappingProxyType({"arm64": 0.0000133334, "x86_64": 0.0000166667})
