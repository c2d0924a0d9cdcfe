"""The table of docs/deployment.md that says what a million step transitions cost, from the lines of the cost model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deployment.md"
HEAD = """\
| average batch | chain: SQS | Lambda | logs | API, S3 | **chain** | **of large results** | **loop** |
|---|---|---|---|---|---|---|---|
"""
_TABLE = re.compile(r"^\| average batch \|.*?(?=^$)", re.MULTILINE | re.DOTALL)


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
    words = [word for word in idle[0]["dollars_per_month"] if word != "total"]
    months = [[line["dollars_per_month"][word] for line in idle] for word in (*words, "total")]
    named = zip((*words, "together"), months, strict=True)
    return "\n".join(
        (
            f"Dollars per million step transitions in {prices['env']}, database apart (prices of {prices['as_of']}, {prices['source']}):",
            "",
            table(lines),
            f"Step Functions without tasks: Standard {functions['standard']:.2f}, Express {functions['express']:.2f}.",
            "",
            "Dollars per month of an idle environment:",
            "",
            f"| | {' | '.join(line['env'] for line in idle)} |",
            "|---|" + "---|" * len(idle),
            *(
                f"| {word.replace('_', ' ')} | {' | '.join(f'{one:.0f}' for one in each)} |"
                for word, each in named
            ),
        )
    )


WORKLOADS = ("chain", "chain of large results", "fan-out")


def _of(lines: Sequence[dict[str, Any]], workload: str) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("workload") == workload]


def printed() -> str:
    """Return the table as the page has it."""
    found = _TABLE.search(PAGE.read_text("utf-8"))
    assert found, f"{PAGE} has no table of what a million transitions cost"
    return found[0]


def write(lines: Sequence[dict[str, Any]]) -> None:
    """Put the table of these lines into the page."""
    PAGE.write_text(_TABLE.sub(lambda _: table(lines), PAGE.read_text("utf-8"), count=1), "utf-8")
