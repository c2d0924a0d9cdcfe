"""Script files."""

from __future__ import annotations

import hashlib
import sys
import threading

import pytest

from noetl.domain.kinds import TaskSettings
from tests.waiting import PATIENCE


@pytest.fixture
def folder(tmp_path):
    """A data folder with scripts in it, beside one that is not allowed."""
    inside = tmp_path / "data"
    inside.mkdir()
    (tmp_path / "outside.py").write_text("print('stolen')")
    (inside / "link.py").symlink_to(tmp_path / "outside.py")
    (inside / "helper.py").write_text("NAME = 'helper'")
    return inside


@pytest.fixture
def run(script_task, folder):
    """Writes a script and runs it; ``fail=True`` expects and gives the error."""

    def call(
        name,
        text,
        given=None,
        *,
        fail=False,
        timeout=PATIENCE,
        cancelled=lambda: False,
        limit=1 << 20,
        **params,
    ):
        if text is not None:
            (folder / name).write_text(text)
        settings = TaskSettings(data_dirs=(str(folder),), output_max_bytes=limit)
        options = {"timeout": timeout, "settings": settings, "cancelled": cancelled}
        asked = {"source": {"type": "file", "path": name}, **params}
        if fail:
            return script_task.error(asked, given, **options)
        return script_task.run(asked, given, **options).result

    return call


@pytest.mark.parametrize(
    ("name", "text", "params", "stdout", "data"),
    [
        ("a.py", "import helper\nprint(helper.NAME)", {}, "helper\n", None),
        ("a.py", "print('x')\nprint('{\"rows\": 3}')", {}, 'x\n{"rows": 3}\n', {"rows": 3}),
        ("a.py", "import sys\nprint(sys.argv[1:])", {"args": ["--version", "-c", 1, True, "a b; rm"]},
         "['--version', '-c', '1', 'true', 'a b; rm']\n", None),
        ("a.sh", 'echo "$1:$REGION"', {"args": ["-x"], "env": {"REGION": "north"}}, "-x:north\n", None),
        ("tool", "#!/usr/bin/env python3\nprint(1)", {}, "1\n", 1),
        ("tool", "#!/bin/bash -e\necho $((2 + 3)) ${BASH_VERSION:+bash}", {}, "5 bash\n", None),
        ("tool", "print('by parameter')", {"interpreter": "python"}, "by parameter\n", None),
        ("a.py", "print('NaN')", {}, "NaN\n", None),
        ("a.py", "print('[' * 100000)", {}, "[" * 100000 + "\n", None),
        ("-c.py", "print('dash')", {}, "dash\n", None),
    ],
)  # fmt: skip
def test_scripts_run(run, name, text, params, stdout, data):
    assert run(name, text, **params) == {"exit_code": 0, "stdout": stdout, "stderr": "", "data": data}


def test_input_is_standard_input(run):
    text = "import json, sys\nprint(json.dumps(json.load(sys.stdin)))"
    given = {"rows": ["é" * 1000] * 100}
    assert run("a.py", text, given)["data"] == given
    assert run("b.sh", "exit 0", given)["exit_code"] == 0, "a script need not read its input"


def test_environment_is_scrubbed(run, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    text = "import json, os\nprint(json.dumps([dict(os.environ), os.getcwd()]))"
    environment, working = run("a.py", text, env={"A": 1})["data"]
    names = set(environment) - {"LD_LIBRARY_PATH", "LC_CTYPE"}
    assert names == {"PATH", "LANG", "HOME", "TMPDIR", "A"}
    assert environment["HOME"] == working


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_parent_cannot_be_read(run):
    error = run("a.sh", "cat /proc/$PPID/environ", fail=True)
    assert error.code == "exit_1"
    words = ("Permission denied", "No such file")  # of a supervisor, and of the first process of a cell
    assert any(word in error.details["stderr"] for word in words)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("echo out; echo 'went wrong' >&2; exit 3", "exit_3", "a.sh ended with exit code 3: went wrong"),
        ("kill -SEGV $$", "signal_SIGSEGV", "a.sh was ended by SIGSEGV"),
        (
            "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done",
            "output_limit",
            "",
        ),
    ],
)
def test_failures(run, text, code, words):
    error = run("a.sh", text, fail=True, limit=100_000)
    assert (error.kind, error.code) == ("unknown", code)
    assert words in str(error)


def test_failure_keeps_the_end_of_its_output(run):
    error = run("a.sh", "echo out; seq 1 10000 >&2; exit 1", fail=True)
    assert error.details["exit_code"] == 1
    assert error.details["stdout"] == "out\n"
    assert error.details["stderr"].endswith("9999\n10000\n")
    assert len(error.details["stderr"]) == 2000


def test_time_and_cancel(run):
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    assert run("a.sh", "sleep 60", fail=True, timeout=0.5).kind == "timeout"
    assert run("a.sh", "sleep 60", fail=True, cancelled=stop.is_set).kind == "cancelled"


def test_background_programs_are_not_waited_for(run):
    assert run("a.sh", "sleep 3600 & echo done", timeout=3600)["stdout"] == "done\n"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"source": {"path": "../outside.py"}}, "path_outside"),
        ({"source": {"path": "link.py"}}, "path_outside"),
        ({"source": {"path": "absent.py"}}, "file_not_found"),
        ({"source": {"path": "."}}, "path_invalid"),
        ({"source": {"path": "notes.txt"}}, "script_interpreter"),
        ({"source": {"uri": "ftp://host/a.py"}}, "script_source"),
        ({"uri": "ftp://host/a.py"}, "script_source"),
        ({"source": {"uri": "s3://bucket"}}, "script_source"),
        ({"source": {"type": "gcs", "uri": "s3://bucket/a.py"}}, "kind_params"),
        ({"source": {"type": "s3", "path": "a.py"}}, "kind_params"),
        ({"source": {"ref": 5}}, "script_source"),
        ({"source": {"uri": "gs://bucket/a.py"}}, "auth_missing"),
        ({"source": {"uri": "https://host/a.py"}}, "script_unpinned"),
        ({"source": {"path": "helper.py"}, "checksum": "sha256:" + "0" * 64}, "checksum"),
    ],
)
def test_what_may_not_run(script_task, folder, params, code):
    (folder / "notes.txt").write_text("#!/usr/bin/perl\n")
    error = script_task.error(params, settings=TaskSettings(data_dirs=(str(folder),)))
    assert error.code == code


def test_uri_and_checksum(run, script_task, folder):
    digest = hashlib.sha256(b"print(7)").hexdigest()
    assert run("a b.py", "print(7)", checksum=f"sha256:{digest}")["data"] == 7
    uri = (folder / "a b.py").as_uri()
    settings = TaskSettings(data_dirs=(str(folder),))
    for params in ({"uri": uri}, {"path": "a b.py"}, {"source": {"uri": uri}}):
        assert script_task.run(params, settings=settings).result["data"] == 7
