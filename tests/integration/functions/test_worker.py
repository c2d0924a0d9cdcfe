"""The worker's function from the outside: loaded as Lambda loads it, in a process with Lambda's environment."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noetl.domain.capability_tokens import KeyRing, fits
from noetl.domain.messages import decode_message
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import encode
from noetl.kinds.registry import default_registry
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[3]
KEY = "a key that no worker has"
CANARIES = {
    "AWS_ACCESS_KEY_ID": "ASIACANARYCANARYCAN1",
    "AWS_SECRET_ACCESS_KEY": "canary/secret/access/key",
    "AWS_SESSION_TOKEN": "canary-session-token",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN": "canary-container-token",
}
ENVIRONMENT = {
    "NOETL_ENV": "test",
    "NOETL_RESULTS_BUCKET": "results",
    "NOETL_WORKER": "python",
    "NOETL_BACK_OFF": "900,900",
    "NOETL_QUEUE_PREFIX": "https://sqs.us-east-1.amazonaws.com/123456789012/noetl-test-commands-",
    "NOETL_EVENTS_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/123456789012/noetl-test-events.fifo",
    "NOETL_QUEUES": '{"python":"python"}',
    "POWERTOOLS_SERVICE_NAME": "noetl-test-worker-python",
    "POWERTOOLS_METRICS_NAMESPACE": "NoETL",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "AWS_LAMBDA_FUNCTION_NAME": "noetl-test-worker-python",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
    "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "en_US.UTF-8",
    "TZ": ":UTC",
}


def worker(code: str, payloads: list[dict[str, Any]], tmp_path: Path, **order: Any) -> tuple[dict, str]:
    """What came of one invocation with a command per payload (and one poisonous message), and what the process wrote to its log."""
    body = "\n".join(f"        {line}" for line in code.splitlines())
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\nworkflow:\n  - step: s\n    tool:\n"
        f"      kind: python\n      args: {{ n: '{{{{ workload.n }}}}' }}\n      code: |\n{body}\n"
    )
    program = compile_playbook(text, source_name="t.yaml", kinds=default_registry()).program
    order = {
        "program": json.loads(encode(program)),
        "payloads": payloads,
        "left": 900.0,
        "key": KEY,
        "task_root": str(ROOT / "functions" / "worker"),
    } | order
    file = tmp_path / "order.json"
    file.write_text(json.dumps(order), "utf-8")
    libraries = os.pathsep.join(
        [str(ROOT / "layers" / "core" / "python"), *(entry for entry in sys.path if entry)]
    )
    done = subprocess.run(
        [sys.executable, "-B", str(Path(__file__).with_name("lambda_like.py")), str(file)],
        env=ENVIRONMENT
        | CANARIES
        | {"PYTHONPATH": libraries, "NOETL_TASK_FOLDERS": str(tmp_path), "NOETL_ENV": "local"},
        cwd=ROOT / "functions" / "worker",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_an_invocation_runs_its_commands_and_gives_back_the_poison(tmp_path):
    found, log = worker("print('hello', n)\nresult = n * 2", [{"n": n} for n in range(4)], tmp_path)
    poison = next(one["messageId"] for one in found["records"] if one["body"] == "poison")
    assert found["answer"] == {"batchItemFailures": [{"itemIdentifier": poison}]}
    assert found["visible_again"] == 0, "the poison backs off"
    messages = [decode_message(text) for text in found["events"]]
    ring = KeyRing.of([KEY])
    assert all(fits(message.token, message.event, ring) for message in messages)
    assert {one.event.execution_id: one.event.outcome.result for one in messages} == {
        100: 0,
        101: 2,
        102: 4,
        103: 6,
    }
    lines = [json.loads(line) for line in log.splitlines()]
    assert {line["execution_id"]: line["message"] for line in lines if "hello" in line["message"]} == {
        str(100 + n): f"[{100 + n} s] hello {n}" for n in range(4)
    }
    summary = lines[-1]
    assert (summary["commands"], summary["RefusedMessages"], summary["request_id"]) == (4, 1, "request-1")
    assert summary["execution_ids"] == ["100", "101", "102", "103"]
    assert sum("_aws" in line for line in lines) == 1
    assert summary["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "NoETL"
    assert not {"psycopg", "yaml"} & set(found["imported"]), "no database and no compiler in a worker"


@pytest.mark.skipif(sys.platform != "linux", reason="looks for secrets in /proc")
def test_code_of_a_playbook_finds_no_credentials_of_its_worker(tmp_path):
    code = """
import os, pathlib
found = [repr(dict(os.environ))]
for process in [os.getppid(), 'self', *[p for p in os.listdir('/proc') if p.isdigit()]]:
    for name in ('environ', 'cmdline', 'maps'):
        try:
            found.append(pathlib.Path(f'/proc/{process}/{name}').read_bytes().decode('utf-8', 'replace'))
        except OSError as error:
            found.append(f'{process}/{name}: {error.strerror}')
readable = []
try:
    os.open(f'/proc/{os.getppid()}/mem', os.O_RDONLY)
    readable.append('mem')
except OSError:
    pass
for fd in range(3, 64):
    try:
        readable.append(os.readlink(f'/proc/{os.getppid()}/fd/{fd}'))
    except OSError:
        pass
from botocore.session import get_session
credentials = get_session().get_credentials()
text = ''.join(found)
canaries = [word for word in ('canary', 'CANARY') if word in text]
result = {'canaries': canaries, 'readable': readable, 'credentials': repr(credentials), 'looked': len(found)}
"""
    found, log = worker(code, [{"n": 1}], tmp_path)
    (text,) = found["events"]
    outcome = decode_message(text).event.outcome
    assert outcome.error is None, outcome.error
    assert outcome.result["looked"] > 6
    assert (outcome.result["canaries"], outcome.result["readable"]) == ([], [])
    assert outcome.result["credentials"] == "None"
    assert not any(canary in text + log for canary in CANARIES.values())


@pytest.mark.full
def test_a_command_for_which_no_time_is_left_is_given_back(tmp_path):
    found, _ = worker("result = 1", [{"n": 1}], tmp_path, left=9.0)
    assert len(found["answer"]["batchItemFailures"]) == 2
    assert (found["events"], found["visible_again"]) == ([], 1)


def _locks(file: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_a_task_that_is_told_to_end_gives_back_what_it_runs(tmp_path):
    """``main.py`` in the place of the handler, with code that takes longer than it may."""
    marker = tmp_path / "begun"
    code = f"import fcntl, time\nheld = open({str(marker)!r}, 'w')\nfcntl.flock(held, fcntl.LOCK_EX)\ntime.sleep(3600)"
    found, log = worker(code, [{"n": 1}], tmp_path, marker=str(marker))
    assert (found["events"], found["visible_again"]) == ([], 1), "the command; the poison backs off"
    with marker.open() as held:
        wait_until(lambda: _locks(held), "the end of the code with its worker")
    assert any(json.loads(line).get("given_back") == 1 for line in log.splitlines())
