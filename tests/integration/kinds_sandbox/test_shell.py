"""Shell commands."""

from __future__ import annotations

import pytest

from noetl.domain.kinds import HOLE, TaskSettings
from noetl.kinds.registry import default_registry
from tests.integration.kinds_sandbox.conftest import Task
from tests.waiting import PATIENCE

HOSTILE = "\"; touch /tmp/x; $(id) `id` ' {{ workload }} * \n"


@pytest.fixture
def shell() -> Task:
    return Task("shell")


@pytest.mark.parametrize(
    ("params", "stdout", "data"),
    [
        ({"command": "echo hello"}, "hello\n", None),
        ({"command": ["echo 1", "echo 2"]}, "1\n2\n", 2),
        (
            {"cmd": 'printf "%s|%s" "$1" "$N"', "args": [HOSTILE], "env": {"N": HOSTILE}},
            f"{HOSTILE}|{HOSTILE}",
            None,
        ),
        ({"command": 'echo "{\\"n\\": $N}"', "env": {"N": 3}}, '{"n": 3}\n', {"n": 3}),
        (
            {"command": 'printf "%s %s" "$M" "$L"', "env": {"M": {"it's": 1}, "L": [True, None]}},
            """{"it's":1} [true,null]""",
            None,
        ),
        ({"command": "pwd; ls -A | wc -l", "env": {}}, None, 0),
        ({"command": "false | true; echo after"}, "after\n", None),
        ({"command": "echo ${HOME:+home}; env | cut -d= -f1 | grep -c AWS || true"}, "home\n0\n", 0),
    ],
)
def test_commands_run(shell, params, stdout, data):
    result = shell.run(params).result
    assert result["exit_code"] == 0 and result["data"] == data
    assert stdout is None or result["stdout"] == stdout


def test_input_is_standard_input(shell):
    assert shell.run({"command": "cat"}, {"rows": [1, 2]}).result["data"] == {"rows": [1, 2]}


@pytest.mark.parametrize(
    ("params", "kind", "code"),
    [
        ({"command": "echo out; echo broken >&2; exit 3; echo no"}, "unknown", "exit_3"),
        ({"command": ["false", "echo no"]}, "unknown", "exit_1"),
        ({"command": "echo $NOWHERE"}, "unknown", "exit_2"),
        ({"command": "false | true", "interpreter": "bash"}, "unknown", "exit_1"),
        ({"command": "kill -9 $$"}, "unknown", "signal_SIGKILL"),
        ({"command": "yes"}, "unknown", "output_limit"),
        ({"command": "sleep 3600"}, "timeout", "timeout"),
        ({"command": "echo a", "env": {"LD_PRELOAD": "x"}}, "schema", "kind_params"),
        ({"command": []}, "schema", "kind_params"),
    ],
)
def test_failures(shell, params, kind, code):
    timeout = 1.0 if kind == "timeout" else PATIENCE
    error = shell.error(params, timeout=timeout, settings=TaskSettings(output_max_bytes=100_000))
    assert (error.kind, error.code) == (kind, code)
    if code == "exit_3":
        assert error.details == {"exit_code": 3, "stderr": "broken\n", "stdout": "out\n"}


def test_a_template_in_a_command_is_refused_with_what_to_write():
    registry = default_registry()
    (problem,) = registry.check("shell", {"command": 'rm "{{ workload.file }}"'})
    assert problem.path == ("command",) and "env" in (problem.hint or "")
    assert registry.check("shell", {"command": "echo ${x:-{}}"}) == []
    assert registry.check("shell", {"command": "echo", "env": HOLE}) == []


@pytest.mark.parametrize(
    ("command", "hinted"),
    [
        ("cat ./seen.txt", True),
        ("cat seen.txt", True),
        ("cat 'a b/seen.txt'", True),
        ("./bin/tool run", True),
        ("cat < names.txt", True),
        ("cat ../up.txt", True),
        ("cat /nowhere.txt", False),
        ("no-such-program", False),
        ("ls -l nothing.d/x", True),
        ("echo broken: no >&2; exit 1", False),
    ],
)
def test_a_command_that_misses_a_file_says_how_to_give_one(shell, tmp_path, command, hinted):
    """Only where the path is one from the folder that it begins in, and the run gives none."""
    error = shell.error({"command": command})
    assert ("--task-folder" in (error.hint or "")) == hinted, error.message
    given = shell.error({"command": command}, settings=TaskSettings(task_folders=(str(tmp_path),)))
    assert "--task-folder" not in (given.hint or "")
