"""Prices of requests, for the cost model: list prices in US dollars, us-east-1, as those of hours and months in infra/prices.py."""

from __future__ import annotations

from dataclasses import dataclass

from infra import prices


@dataclass(frozen=True)
class Prices:
    """Per million requests unless a name says otherwise."""

    lambda_requests: float = prices.LAMBDA_REQUESTS
    lambda_gb_second_arm64: float = prices.LAMBDA_GB_SECOND["arm64"]
    lambda_gb_second_x86_64: float = prices.LAMBDA_GB_SECOND["x86_64"]
    sqs_standard: float = prices.QUEUE_REQUESTS
    sqs_fifo: float = 0.50
    http_api: float = 1.00
    s3_put: float = 5.00
    s3_get: float = 0.40
    logs_gb: float = 0.50
    step_functions_transitions: float = 25.00
    express_requests: float = 1.00
    express_gb_second: float = 0.00001667


PRICES = Prices()
SQS_UNIT = 64 * 1024
"""Bytes that SQS bills as one request."""
EXPRESS_MEMORY_GB = 64 / 1024
"""The step in which Step Functions Express bills memory; a small workflow takes one."""
