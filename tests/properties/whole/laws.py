"""What holds after every story, as far as the doors can tell."""

from __future__ import annotations

import json
import threading
from typing import Any

from noetl.domain.state import TERMINAL
from tests.properties.whole.served import Served
from tests.waiting import wait_until

BAD_WORDS = ("Traceback", "defect", "Error:")
"""Words of a log line that tell of a defect. A line of a task's failure names its kind, and no class."""
THREADS = frozenset({"noetl-engine", "noetl-http", "noetl-keeper"})
"""Names of threads without which a server stands still."""


def check(served: Served, rows: list[dict[str, Any]], roots: list[str]) -> None:
    """Hold all laws; what breaks one is noted in ``served.wrong``."""
    if served.wrong:
        return
    listed = [row["execution_id"] for row in rows]
    for one in roots:
        if one not in set(listed):
            served.broke("every-row-is-shown", f"{one} is not listed")
    if len(set(listed)) != len(listed):
        served.broke("every-row-is-shown", "a row is listed twice")
    for row in rows:
        if row.get("unreadable"):
            served.broke("every-row-is-shown", f"unreadable: {row}")
        _shown(served, row)
    _told_by_the_command_line(served, roots)
    if served.ask("GET", "/health").status != 200 or served.ask("GET", "/ready").status != 200:
        served.broke("the-server-is-well", "/health or /ready is not 200")
    lost = THREADS - {thread.name for thread in threading.enumerate()}
    if lost:
        served.broke("the-server-is-well", f"threads of the server have ended: {sorted(lost)}")
    for line in served.log:
        if any(word in line for word in BAD_WORDS):
            served.broke("the-server-is-well", f"the log: {line[:2000]}")


def _shown(served: Served, row: dict[str, Any]) -> None:
    """Everything about one execution is answered, and agrees; nothing of it is outstanding."""
    at = f"/api/executions/{row['execution_id']}"

    def nothing_is_left() -> bool:
        found = served.ask("GET", f"{at}/status").json
        return found.get("status") in TERMINAL and not any(found["outstanding"].values())

    try:
        wait_until(nothing_is_left, f"the end of what is outstanding of {row}", seconds=60.0)
    except (AssertionError, KeyError) as error:
        served.broke("nothing-is-left", f"{error} {served.ask('GET', f'{at}/status').json}")
        return
    view = served.ask("GET", at).json
    if view["status"] != row["status"] or view["unreadable"] or view["parked"] or view["waits"]:
        served.broke("every-row-is-shown", f"the view differs from the list: {row} {view}")
    list(served.pages(f"{at}/steps?limit=500", "steps"))
    _events(served, at)
    result = served.ask("GET", f"{at}/result")
    if result.status != (200 if row["status"] == "completed" else 409):
        served.broke("every-row-is-shown", f"the result of {row} is answered {result}")
    for path in (f"/api/vars/{row['execution_id']}", f"{at}/logs?limit=10", f"{at}/callbacks"):
        if (reply := served.ask("GET", path)).status != 200:
            served.broke("every-row-is-shown", f"{path} is answered {reply}")
    if (reply := served.ask("POST", f"{at}/analyze")).status != 200 or reply.json["stuck"]:
        served.broke("everything-ends", f"analyze of {row}: {reply}")


def _events(served: Served, at: str) -> None:
    """The history is told to its end, which is one."""
    after, events = "", []
    for _ in range(1000):
        reply = served.ask("GET", f"{at}/events?limit=1000{after}")
        if reply.status != 200:
            served.broke("every-row-is-shown", f"the events of {at} are answered {reply}")
            return
        events += reply.json["events"]
        if reply.json["complete"]:
            return
        after = f"&after={reply.json['next']}"
    served.broke("every-row-is-shown", f"the history of {at} has no end")


def _told_by_the_command_line(served: Served, roots: list[str]) -> None:
    """One execution by the commands that look; ``replay`` agrees."""
    some = roots[0]
    for words in (
        ("list", "--limit", "20"),
        ("status", some),
        ("status", some, "--json"),
        ("events", some),
        ("analyze", some),
        ("result", some),
    ):
        code, out = served.noetl(*words)
        if code not in ((0, 1, 2) if words[0] == "result" else (0,)):
            served.broke("every-row-is-shown", f"noetl {words} ends with {code}: {out[:1000]}")
    code, out = served.noetl("replay", some, "--json")
    if code != 0 or json.loads(out)["agrees"] is not True:
        served.broke("replay-agrees", f"noetl replay {some} ends with {code}: {out[:2000]}")


def check_everything(served: Served) -> int:
    """Page through every execution there is, and replay all of them. How many there are."""
    ids = [row["execution_id"] for row in served.pages("/api/executions?limit=37", "executions")]
    assert len(set(ids)) == len(ids), "law every-row-is-shown: a row is listed twice"
    code, out = served.noetl("replay", "--all", "--json")
    differing = [line for line in out.splitlines() if not json.loads(line)["agrees"]]
    assert code == 0 and not differing, ("law replay-agrees", code, differing[:5])
    assert len(out.splitlines()) == len(ids), "the list shows what is there"
    for queue in served.ask("GET", "/api/queue").json["queues"]:
        assert queue["waiting"] == 0, ("law nothing-is-left", queue)
    return len(ids)
