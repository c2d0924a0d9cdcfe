"""The table of docs/deployment-cost.md that says what a million step transitions cost, from the lines of the cost model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deployment-cost.md"
HEAD = """\
| average batch | chain: SQS | Lambda | logs | API, S3 | **chain** | **of large results** | **loop** |
|---|---|---|---|---|---|---|---|
"""
_TABLE = re.compile(r"^\| average batch \|.*?(?=^$)", re.MULTILINE | re.DOTALL)

_MONTHS = re.compile(r"(?<=^A month of doing nothing:\n\n)\|.*?(?=^$)", re.MULTILINE | re.DOTALL)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return the rows for each average batch. ``lines``: the report of the cost model for prod."""
    rows = ""
    for chain, large, loop in zip(*(_of(lines, name) for name in WORKLOADS), strict=True):
        dollars = chain["dollars_per_million"]
        parts = (
            dollars["sqs"],
            dollars["lambda_requests"] + dollars["lambda_duration"],
            dollars["logs"],
            dollars["http_api"] + dollars["s3"],
        )
        totals = (one["dollars_per_million"]["total"] for one in (chain, large, loop))
        cells = [f"{each:.2f}" for each in parts] + [f"**{each:.1f}**" for each in totals]
        rows += f"| {round(chain['average_batch']['engine'])} | {' | '.join(cells)} |\n"
    return HEAD + rows


def readable(lines: Sequence[dict[str, Any]]) -> str:
    """Return the report as people read it: dollars per million transitions, and per month of doing nothing."""
    prices = next(line for line in lines if line["line"] == "prices")
    functions = _of(lines, "chain")[0]["step_functions_dollars_per_million"]
    idle = [line for line in lines if line["line"] == "idle"]
    return "\n".join(
        (
            f"Dollars per million step transitions in {prices['env']}, database apart (prices of {prices['as_of']}, {prices['source']}):",
            "",
            table(lines),
            f"Step Functions without tasks: Standard {functions['standard']:.2f}, Express {functions['express']:.2f}.",
            "",
            "Dollars per month of an idle environment:",
            "",
            months(idle),
        )
    )


def months(idle: Sequence[dict[str, Any]]) -> str:
    """Return the table of what environments cost a month while nothing happens: a line of the bill each, the largest first."""
    bills = [line["dollars_per_month"] for line in idle]
    words = {word: max(bill.get(word, 0.0) for bill in bills) for bill in bills for word in bill}
    order = sorted(
        (word for word in words if word != "total" and words[word] >= 0.5), key=lambda one: -words[one]
    )
    rows = [f"| | {' | '.join(line['env'] for line in idle)} |", "|---|" + "---|" * len(idle)]
    for word in order:
        cells = [f"{bill.get(word, 0.0):.0f}" if bill.get(word, 0.0) >= 0.5 else "–" for bill in bills]
        rows.append(f"| {word} | {' | '.join(cells)} |")
    totals = " | ".join(f"**{bill['total']:.0f}**" for bill in bills)
    rows.append(f"| **together** | {totals} |")
    return "\n".join(rows) + "\n"


WORKLOADS = ("chain", "chain of large results", "fan-out")


def _of(lines: Sequence[dict[str, Any]], workload: str) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("workload") == workload]


def printed_months() -> str:
    """Return the table of idle environments as the page has it."""
    found = _MONTHS.search(PAGE.read_text("utf-8"))
    assert found, f"{PAGE} has no table of what a month of doing nothing costs"
    return found[0]


def printed() -> str:
    """Return the table as the page has it."""
    found = _TABLE.search(PAGE.read_text("utf-8"))
    assert found, f"{PAGE} has no table of what a million transitions cost"
    return found[0]


def write(lines: Sequence[dict[str, Any]]) -> None:
    """Put the table of these lines into the page."""
    text = _TABLE.sub(lambda _: table(lines), PAGE.read_text("utf-8"), count=1)
    idle = [line for line in lines if line["line"] == "idle"]
    PAGE.write_text(_MONTHS.sub(lambda _: months(idle), text, count=1), "utf-8")
