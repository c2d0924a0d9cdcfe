"""The price table of the cost model. One place, one date.

List prices in US dollars, us-east-1, without free tiers, discounts or taxes: from general knowledge, not looked up. Check what
matters to you against the price pages of AWS before you rely on it.
"""

from __future__ import annotations

from dataclasses import dataclass

AS_OF = "2026-11"
SOURCE = "from general knowledge, not looked up"
MONTH_HOURS = 730


@dataclass(frozen=True)
class Prices:
    """Per million requests unless a name says otherwise."""

    lambda_requests: float = 0.20
    lambda_gb_second_arm64: float = 0.0000133334
    lambda_gb_second_x86_64: float = 0.0000166667
    sqs_standard: float = 0.40
    sqs_fifo: float = 0.50
    http_api: float = 1.00
    s3_put: float = 5.00
    s3_get: float = 0.40
    logs_gb: float = 0.50
    step_functions_transitions: float = 25.00
    express_requests: float = 1.00
    express_gb_second: float = 0.00001667

    aurora_acu_hour: float = 0.12
    db_t4g_micro_hour: float = 0.016
    db_t4g_medium_hour: float = 0.065
    db_r7g_large_hour: float = 0.24
    rds_proxy_acu_hour: float = 0.015
    rds_proxy_least_acu: float = 8
    endpoint_hour: float = 0.01
    nat_gateway_hour: float = 0.045

    secret_month: float = 0.40
    kms_key_month: float = 1.00
    alarm_month: float = 0.10
    dashboard_month: float = 3.00
    metric_month: float = 0.30


PRICES = Prices()
SQS_UNIT = 64 * 1024
"""Bytes that SQS bills as one request."""
EXPRESS_MEMORY_GB = 64 / 1024
"""The step in which Step Functions Express bills memory; a small workflow takes one."""
