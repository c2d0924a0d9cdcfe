"""docs/speed.json is the history of recorded runs; the marked tables of docs/speed.md and README.md are made from it.

Usage: python -m tests.bench.speed.page   (`make speed-page`)
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from tests.bench.speed.figures import LESS_IS_BETTER, ROOT, WORKLOADS, number
from tests.bench.speed.processor_time import GROUPS

HISTORY = ROOT / "docs" / "speed.json"
PAGES = (ROOT / "docs" / "speed.md", ROOT / "README.md")
BEGIN, END = "<!-- speed:{name} -->", "<!-- /speed:{name} -->"
KINDS = {
    "python": "`python`",
    "python-own": "`process: execution`",
    "http": "`http`",
    "postgres": "`postgres`",
    "tick": "no-op",
}
OWN = "python-own"
PEERS = {"dbos": "DBOS", "restate": "Restate"}
ROWS = (
    *((name, measure, 0) for name, measure in (("chain", "per step"), ("alone", "p50"), ("many", "rate"))),
    *(("door", measure, clients) for clients in (1, 16, 64) for measure in ("rate", "p50", "p99")),
    *((name, "rate", 0) for name in ("parallel", "sequential")),
    *(("starts", "rate", clients) for clients in (1, 16, 64)),
    ("door-chain", "per step", 1),
    *((f"door-{name}", "rate", 1) for name in ("parallel", "sequential")),
)
"""Workload, measure, clients: in the order of the pages."""
BRIEF = (
    ("chain", "per step", 0),
    ("alone", "p50", 0),
    ("many", "rate", 0),
    ("door", "rate", 16),
    ("parallel", "rate", 0),
)
COMMANDS = {
    "first": "`noetl run` of a hello world, the very first",
    "warm": "`noetl run`, again",
    "list": "`noetl list`",
    "status": "`noetl status`",
    "validate": "`noetl validate`",
    "help": "`noetl --help`",
}
COMMIT = ("postgres", "none", "ceiling", "commit", 0)
"""The figure of a commit of one session, one after the other."""
Record = dict[str, Any]
Found = dict[tuple[Any, ...], dict[str, Any]]


def load(path: Path = HISTORY) -> list[Record]:
    found: list[Record] = json.loads(path.read_text("utf-8"))
    return found


def append(record: Record, path: Path = HISTORY) -> None:
    """Keep a run, the newest last; a line per figure, so that a difference can be read."""
    runs = [*load(path), record]
    parts = []
    for run in runs:
        figures = ",\n".join(f"   {json.dumps(one)}" for one in run["figures"])
        parts.append(f' {{"about": {json.dumps(run["about"])},\n  "figures": [\n{figures}\n  ]}}')
    path.write_text("[\n" + ",\n".join(parts) + "\n]\n", "utf-8")


def render(page: str, history: list[Record]) -> str:
    """The page with its marked tables made anew. What lies between marks stays while no run is recorded."""
    if not history:
        return page
    shown = next((run for run in reversed(history) if run["about"]["quiet"]), history[-1])
    for name, made in (("tables", tables(shown)), ("brief", brief(shown)), ("history", past(history))):
        begin, end = BEGIN.format(name=name), END.format(name=name)
        if begin in page:
            head, _, rest = page.partition(begin)
            page = f"{head}{begin}\n{made}\n{end}{rest.partition(end)[2]}"
    return page


def tables(run: Record) -> str:
    """What the run was, `python` beside the peers, and the other kinds."""
    found, peers = _index(run), _peers(run)
    heads = [
        KINDS["python"],
        "in commits",
        KINDS[OWN],
        *(f"{PEERS[one]} | beside {PEERS[one]}" for one in peers),
    ]
    first = [_row(["", *heads]), "|" + "---|" * (4 + 2 * len(peers))]
    for row in ROWS:
        if (ours := found.get(("noetl", "python", *row))) is not None:
            own = found.get(("noetl", OWN, *row))
            others = [found.get((one, "python", *row)) for one in peers]
            beside = [text for other in others for text in (_told(other), _ratios(ours, own, other))]
            first.append(_row([_title(row, ours), _told(ours), _commits(ours, found), _told(own), *beside]))
    kinds = [kind for kind in KINDS if any(key[:2] == ("noetl", kind) for key in found)]
    second = [_row(["", *(KINDS[kind] for kind in kinds)]), "|" + "---|" * (1 + len(kinds))]
    for row in (*ROWS, ("chain", "commits", 0), ("chain", "wal", 0)):
        cells = [found.get(("noetl", kind, *row)) for kind in kinds]
        if any(cells):
            title = _title(row, next(one for one in cells if one))
            second.append(_row([title, *(_told(one) for one in cells)]))
    parts = [textwrap.fill(_about(run), 120), "", *first, "", "Every kind of step:", "", *second]
    parts += ["", "Commands, a new process each time:", "", *_commands(found)]
    for workload, of_what in (
        ("many", "an execution of three steps, many at once"),
        ("parallel", "an item of a parallel loop"),
    ):
        if made := _processor_time(workload, found, kinds):
            parts += ["", f"Where the processor time of {of_what} goes, in milliseconds:", "", *made]
    return "\n".join(parts)


def _processor_time(workload: str, found: Found, kinds: list[str]) -> list[str]:
    """Processor time by group and kind, and in all; nothing where it was not measured."""
    cells = {
        (group, kind): found.get(("noetl", kind, workload, f"cpu {group}", 0))
        for group in GROUPS
        for kind in kinds
    }
    if not any(cells.values()):
        return []
    made = [_row(["", *(KINDS[kind] for kind in kinds)]), "|" + "---|" * (1 + len(kinds))]
    for group, title in GROUPS.items():
        made.append(_row([title, *(_used(cells[group, kind]) for kind in kinds)]))
    sums = [sum(one["median"] for group in GROUPS if (one := cells[group, kind])) for kind in kinds]
    return [*made, _row(["in all", *(f"**{number(one)}**" if one else "–" for one in sums)])]


def _used(figure: dict[str, Any] | None) -> str:
    return number(figure["median"]) if figure and figure["median"] else "–"


def _commands(found: Found) -> list[str]:
    """What commands take, with the start and the stop of the embedded database."""
    made = [_row(["", "time", "processor time"]), "|---|---|---|"]
    for name, title in COMMANDS.items():
        if (taken := found.get(("noetl", "python", "run-hello", name, 0))) is not None:
            used = found.get(("noetl", "python", "run-hello", f"{name} cpu", 0))
            made.append(_row([title, _told(taken), _told(used)]))
    return made


def brief(run: Record) -> str:
    """The few rows of the README."""
    found, peers = _index(run), _peers(run)
    made = [
        _row(["`python` steps", "NoETL", f"NoETL, {KINDS[OWN]}", *(PEERS[one] for one in peers)]),
        "|" + "---|" * (3 + len(peers)),
    ]
    for row in BRIEF:
        if (ours := found.get(("noetl", "python", *row))) is not None:
            own = _middle(found.get(("noetl", OWN, *row)))
            others = (_middle(found.get((one, "python", *row))) for one in peers)
            made.append(_row([_title(row, ours), _middle(ours), own, *others]))
    return "\n".join(made)


def past(history: list[Record]) -> str:
    """A line per recorded run, the newest first."""
    made = [
        _row(["recorded", "commit", "load", "machine", "a commit there", *(_name(row) for row in BRIEF)]),
        "|" + "---|" * (5 + len(BRIEF)),
    ]
    for run in reversed(history):
        found, about = _index(run), run["about"]
        load = f"{about['load']}" + ("" if about["quiet"] else ", not quiet")
        cells = (_middle(found.get(("noetl", "python", *row))) for row in BRIEF)
        commit = _middle(found.get(COMMIT))
        made.append(_row([about["date"][:10], f"`{about['commit']}`", load, about["cpu"], commit, *cells]))
    return "\n".join(made)


def _about(run: Record) -> str:
    about = run["about"]
    quiet = "quiet" if about["quiet"] else "**not quiet: these figures are no measure**"
    changed = " with changes that are not committed" if about["changed"] else ""
    where = f"{about['cores']} cores of {about['cpu']}, {about['system']}, Python {about['python']}, {about['postgres']}"
    return f"{about['date'][:10]}, commit `{about['commit']}`{changed}; {where}; load at the start {about['load']} ({quiet})."


def _index(run: Record) -> Found:
    return {
        (one["system"], one["kind"], one["workload"], one["measure"], one.get("clients", 0)): one
        for one in run["figures"]
    }


def _peers(run: Record) -> list[str]:
    measured = {one["system"] for one in run["figures"]}
    return [name for name in PEERS if name in measured]


def _name(row: tuple[str, str, int]) -> str:
    workload, measure, clients = row
    return f"{workload}, {measure}" + (f", {clients} clients" if clients else "")


def _title(row: tuple[str, str, int], figure: dict[str, Any]) -> str:
    workload, measure, clients = row
    size = f", {figure['size']:,} items" if workload in ("parallel", "door-parallel") else ""
    more = [] if measure in ("per step", "rate") else [measure]
    if clients:
        more.append("1 client" if clients == 1 else f"{clients} clients")
    return ", ".join([WORKLOADS[workload] + size, *more])


def _told(figure: dict[str, Any] | None) -> str:
    if figure is None:
        return "–"
    way = f", {figure['way']}" if figure.get("way") and figure["system"] != "noetl" else ""
    spread = f"{number(figure['min'])}–{number(figure['max'])}"
    size = (
        f", {figure['size']:,} items"
        if figure["system"] != "noetl" and figure["workload"] == "parallel"
        else ""
    )
    return f"{_middle(figure)} ({spread}{size}{way})"


def _middle(figure: dict[str, Any] | None) -> str:
    return "–" if figure is None else f"{number(figure['median'])} {figure['unit']}"


def _less(figure: dict[str, Any]) -> bool:
    return str(figure["unit"]).split("/")[0] in LESS_IS_BETTER


def _ratios(ours: dict[str, Any], own: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    """How many times as fast as a peer: with processes that executions share, and with one for each."""
    return _ratio(ours, other) if own is None else f"{_ratio(ours, other)}, {_ratio(own, other)}"


def _ratio(ours: dict[str, Any], other: dict[str, Any] | None) -> str:
    if other is None:
        return "–"
    few, many = (other, ours) if not _less(ours) else (ours, other)
    return f"{number(many['median'] / few['median'])} ×"


def _commits(figure: dict[str, Any], found: Found) -> str:
    """How many commits, one after the other, take as long as one step, item or execution."""
    commit = found.get(COMMIT)
    if commit is None:
        return "–"
    milliseconds = figure["median"] if _less(figure) else 1000 / figure["median"]
    return number(milliseconds / commit["median"])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    history = load()
    for page in PAGES:
        page.write_text(render(page.read_text("utf-8"), history), "utf-8")


if __name__ == "__main__":
    main()
