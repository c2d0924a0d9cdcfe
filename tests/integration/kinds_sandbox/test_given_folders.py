"""Folders that the one who runs gives to tasks: what works in them, and that nothing leads out of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kinds_sandbox.test_confinement import combined, ground, layers_for  # noqa: F401
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing confines code there")
SHAPES = ["all", "a root of its own", "landlock", "namespaces"]
every_shape = combined(["root-all"], shape=SHAPES)


def shell(command: str, **env: str) -> dict:
    return {"kind": "shell", "params": {"command": command, "env": env}}


def outcome(found: dict) -> str:
    assert "error" not in found, found
    return found["result"]["stdout"]


@pytest.fixture
def way(ground) -> Iterator[Path]:  # noqa: F811
    """A link to the folders of the worker, in a folder that everybody may search."""
    above = Path(tempfile.mkdtemp(prefix="way-"))
    above.chmod(0o755)
    (above / "link").symlink_to(ground.root)
    yield above / "link"
    shutil.rmtree(above)


@combined(["ordinary-landlock"], shape=SHAPES)
def test_a_file_of_one_step_is_there_in_the_next(ground, shape):  # noqa: F811
    """By relative paths in a shell, by absolute ones in Python; programs in the folder run."""
    (ground.shared / "seen.txt").write_text("seen\n")
    tool = ground.shared / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho tool $1\n")
    tool.chmod(0o755)
    python = f"""
import os
text = open({str(ground.shared / "left.txt")!r}).read()
open({str(ground.shared / "of python")!r}, 'w').write('from python')
result = [text, os.getcwd() == os.environ['HOME'], os.listdir('.')]
"""
    found = ground.run(
        [
            shell(
                "cat ./seen.txt; pwd; ./bin/tool 1; mkdir -p out; echo left > left.txt; mv left.txt out; mv out/left.txt ."
            ),
            {"kind": "python", "params": {"code": python}},
            shell("cat 'of python'; ls -A \"$HOME\" | wc -l; rmdir out"),
        ],
        layers_for(shape, ground.user),
    )
    assert outcome(found[0]) == f"seen\n{ground.shared}\ntool 1\n"
    assert found[1]["result"] == ["left\n", True, []]
    assert outcome(found[2]) == "from python0\n"
    assert (ground.shared / "left.txt").read_text() == "left\n"


@combined(["root-all", "ordinary-landlock"], shape=SHAPES)
def test_nothing_leads_out_of_a_folder(ground, shape):  # noqa: F811
    """Links that are there already, ``..``, names of other places, and what is beside the folder."""
    outside = ground.root / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (ground.playbooks / "play.txt").write_text("play")
    for name, leads_to in (("file", outside / "secret"), ("folder", outside), ("up", Path("../outside"))):
        (ground.shared / name).symlink_to(leads_to)
    inside = ground.shared / "inside"
    inside.symlink_to("kept")
    (ground.shared / "kept").write_text("kept\n")
    tries = (
        "cat file", "cat folder/secret", "cat up/secret", "cat ../outside/secret", f"cat {outside}/secret", "ls ..", "ls folder/",
        "echo x > file", "echo x > folder/new", "echo x > ../new", "mkdir ../outside/new", "mv kept ../outside/", "ln kept ../outside/",
        "ln file hard && cat hard", "cat /proc/self/root/$PWD/../outside/secret", "cat /proc/1/root/$PWD/../outside/secret",
        f"echo x > {ground.playbooks}/play.txt", "cd .. && cat outside/secret", "mv file moved && cat moved",
    )  # fmt: skip
    text = "\n".join(f"( {one} ) >/dev/null 2>&1 && echo {number}" for number, one in enumerate(tries))
    found = ground.run([shell(f"{text}\ncat inside\n")], layers_for(shape, ground.user))
    went = outcome(found[0]).splitlines()
    assert went.pop() == "kept"
    own = {"ls ..", "echo x > ../new"}
    assert {tries[int(one)] for one in went} <= own, (
        "a root of its own has the folders above, without what is in them"
    )
    assert (outside / "secret").read_text() == "secret" and [one.name for one in outside.iterdir()] == [
        "secret"
    ]
    assert (ground.playbooks / "play.txt").read_text() == "play"
    assert not (ground.root / "new").exists()


LED_ASTRAY = """
import ctypes, os, socket, stat
found = []
place = FOLDER
def attempt(name, make):
    try:
        make(f'{place}/{name}')
        found.append(name)
    except OSError:
        pass
attempt('link', lambda path: os.symlink('/etc/passwd', path))
attempt('pipe', os.mkfifo)
attempt('socket', lambda path: socket.socket(socket.AF_UNIX).bind(path))
for kind, make in (('link', lambda path: os.symlink('x', path)), ('pipe', os.mkfifo)):
    own = f"{os.environ['HOME']}/{kind}"
    make(own)
    attempt(f'moved {kind}', lambda path: os.rename(own, path))
    attempt(f'second {kind}', lambda path: os.link(own, path, follow_symlinks=False))
for name, number in (('block', os.makedev(7, 0)), ('character', 0)):
    kind = stat.S_IFBLK if number else stat.S_IFCHR
    attempt(name, lambda path: os.mknod(path, kind | 0o600, number))
open(f'{place}/file', 'w').close()
os.makedirs(f'{place}/folder/in')
own = f"{os.environ['HOME']}/folder"
os.mkdir(own)
os.symlink('/etc/passwd', f'{own}/link')
os.mkfifo(f'{own}/pipe')
def exchange(path):
    if ctypes.CDLL(None).renameat2(-100, own.encode(), -100, f'{place}/folder'.encode(), 2) != 0:
        raise OSError
attempt('exchanged folder', exchange)
attempt('moved folder', lambda path: os.rename(own, path))
result = found
"""


@combined(["ordinary-landlock"], shape=["all", "a root of its own", "landlock"])
def test_only_files_and_folders_are_made_there(ground, shape):  # noqa: F811
    """A kind in the worker that looks where a path leads, and then opens it, finds the same place."""
    code = LED_ASTRAY.replace("FOLDER", repr(str(ground.shared)))
    (found,) = ground.run([{"kind": "python", "params": {"code": code}}], layers_for(shape, ground.user))
    assert found.get("result") == [], found


@combined(
    ["root-all-link"],
    shape=["all", "a root of its own", "namespaces"],
    by=["plain", "link"],
)
def test_programs_that_run_tasks_stay_as_they_are(ground, way, shape, by):  # noqa: F811
    """Also where a folder that is given holds them, under its own name and by a link: a checkout with its environment."""
    installed = ground.root / "library" / "installed.py"
    folder = ground.root if by == "plain" else way
    found = ground.run(
        [
            shell(
                "cd library; cat installed.py; echo changed > installed.py || rm installed.py || mv ../library ../other || echo kept"
            ),
            shell("echo new > new.txt; ls"),
        ],
        layers_for(shape, ground.user),
        task_folders=[str(folder)],
    )
    assert outcome(found[0]).splitlines() == ["installed = True", "kept"]
    assert "new.txt" in outcome(found[1])
    assert installed.read_text() == "installed = True\n"


def lead_astray(ground, *below: str) -> Path:  # noqa: F811
    """Folders of a checkout, with a link from before: a task that renames what is above it leads ``shared/<below>`` to a secret."""
    secret = ground.root / "secret"
    for folder in (secret, ground.shared.joinpath(*below), ground.shared / "x"):
        folder.mkdir(parents=True)
    (secret / "key").write_text("KEY")
    (ground.shared / "x" / below[-1]).symlink_to(secret)
    for path in ground.root.rglob("*"):
        os.chown(path, ground.user, ground.user, follow_symlinks=False)
    return secret


@every_shape
def test_a_given_folder_in_another_one_is_not_what_a_task_makes_of_its_name(ground, shape):  # noqa: F811
    secret = lead_astray(ground, "b", "c")
    given = {"task_folders": [str(ground.shared / "b" / "c"), str(ground.shared)]}
    layers = layers_for(shape, ground.user)
    work = shell(f"pwd; cd {ground.shared} && mv b old && mv x b")
    moved, again = ground.run([work, shell("cat key; echo changed > key")], layers, **given)
    assert outcome(moved) == f"{ground.shared}/b/c\n"
    for found in (
        again,
        *ground.run([shell(f"cat {secret}/key; echo changed > {secret}/key")], layers, **given),
    ):
        assert found["code"] == "task_folder" and "leads to another place" in found["error"], found
    assert (secret / "key").read_text() == "KEY"


@every_shape
def test_the_folder_of_a_playbook_is_not_what_a_task_makes_of_its_name(ground, shape):  # noqa: F811
    """Where it lies in a folder that is given."""
    secret = lead_astray(ground, "b", "books")
    (ground.shared / "b" / "books" / "data.csv").write_text("n\n1\n")
    given = {
        "task_folders": [str(ground.shared)],
        "data_dirs": [str(ground.shared / "b" / "books"), str(ground.shared)],
    }
    query = "SELECT * FROM read_csv('key', header=false)"
    calls = [
        {"kind": "duckdb", "params": {"query": "FROM t", "sources": {"t": {"file": "data.csv"}}}},
        {"kind": "duckdb", "params": {"query": "FROM 'data.csv'"}},
        shell("mv b old && mv x b"),
        shell(f"cat {secret}/key"),
        {"kind": "python", "params": {"code": f"result = open({str(secret / 'key')!r}).read()"}},
        {"kind": "duckdb", "params": {"query": query}},
        {"kind": "duckdb", "params": {"query": query.replace("'key'", f"'{secret}/key'")}},
        {"kind": "duckdb", "params": {"query": "FROM t", "sources": {"t": {"file": "key", "format": "csv"}}}},
        {"kind": "script", "params": {"uri": "key", "interpreter": "sh"}},
    ]
    layers = layers_for(shape, ground.user)
    own, by_name, moved, *others = ground.run(calls, layers, **given)
    assert own["result"]["rows"] == [{"n": 1}], own
    assert by_name["code"] == "path_outside" and "tasks may write to" in by_name["error"], by_name
    assert "error" not in moved, moved
    for found in (*others, *ground.run(calls[3:], layers, **given)):
        assert "error" in found and "KEY" not in str(found), found


@every_shape
def test_what_is_no_folder_any_more_is_left_out(ground, shape):  # noqa: F811
    """Tasks go on without it, and a command that would begin in it says so."""
    ground.shared.rmdir()
    ground.shared.write_text("a file")
    python, missing = ground.run(
        [{"kind": "python", "params": {"code": "result = 1"}}, shell("true")], layers_for(shape, ground.user)
    )
    assert python.get("result") == 1, python
    assert missing["code"] == "task_folder", missing


@combined(["ordinary"])
def test_a_pipe_is_not_waited_for(ground):  # noqa: F811
    """Beside a playbook, where people put them."""
    pipe = ground.playbooks / "pipe.csv"
    os.mkfifo(pipe)
    calls = [
        {"kind": "duckdb", "params": {"query": f"FROM read_csv('{name}')"}}
        for name in ("pipe.csv", str(pipe))
    ]
    calls += [
        {"kind": "duckdb", "params": {"query": "FROM t", "sources": {"t": {"file": "pipe.csv"}}}},
        {"kind": "script", "params": {"uri": "pipe.csv", "interpreter": "sh"}},
        {"kind": "http", "params": {"url": "http://127.0.0.1:9/", "method": "POST", "multipart": {"f": {"file": "pipe.csv"}}}},
    ]  # fmt: skip
    for found in ground.run(calls, None):
        assert found.get("code") == "path_invalid", found


@combined(["ordinary"])
def test_a_command_says_what_it_misses(ground):  # noqa: F811
    gone = ground.root / "gone"
    calls = [shell("true"), {"kind": "python", "params": {"code": "result = 1"}}]
    missing, python = ground.run(calls, None, task_folders=[str(gone)])
    assert missing["code"] == "task_folder" and str(gone) in missing["error"]
    assert python["result"] == 1


PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: given }
workflow:
  - step: leave
    tool:
      kind: shell
      command: |
        cat ./names.csv
        ./bin/tool > left.txt
    next: { arcs: [{ step: look }] }
  - step: look
    tool:
      kind: python
      process: playbook
      args: { folder: "{{ workload.folder }}" }
      code: |
        import os
        with open(f"{folder}/left.txt", "a") as file:
            file.write("and python\\n")
        outside = os.path.exists(f"{folder}/../outside.txt")
        result = {"outside": outside, "own": os.getcwd() != folder, "here": sorted(os.listdir(folder))}
    next: { arcs: [{ step: count }] }
  - step: count
    tool:
      kind: duckdb
      sources: { names: { file: names.csv } }
      query: "SELECT count(*) AS n FROM names"
    next: { arcs: [{ step: end }] }
  - step: end
    tool:
      kind: shell
      command: |
        cat left.txt >&2
        printf '{"rows": %s, "look": %s}' "$ROWS" "$LOOK"
      env: { ROWS: "{{ count.rows[0].n }}", LOOK: "{{ look }}" }
"""


@pytest.mark.full
@pytest.mark.postgres
def test_a_person_gives_the_folder_the_command_runs_in(tmp_path, database):
    """By the door: steps leave files for each other, kinds in the worker read them, and nothing else of the machine is open."""
    project, home, playbook = tmp_path / "project", tmp_path / "home", tmp_path / "books" / "given.yaml"
    for folder in (project / "bin", playbook.parent):
        folder.mkdir(parents=True)
    playbook.write_text(PLAYBOOK)
    (project / "names.csv").write_text("name\nada\ngrace\n")
    (tmp_path / "outside.txt").write_text("outside")
    (project / "bin" / "tool").write_text("#!/bin/sh\necho by a tool\n")
    (project / "bin" / "tool").chmod(0o755)

    def noetl(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "noetl.cli", *words, "--home", str(home), "--json"]
        env = {**os.environ, "NOETL_DATABASE_URL": database}
        return subprocess.run(
            command, cwd=project, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    run = ("run", str(playbook), "--set", f"folder={project}")
    without = noetl(*run)
    assert without.returncode == 1, without.stderr
    assert "--task-folder" in json.dumps(json.loads(without.stdout.splitlines()[-1])["error"])
    for place in (home, tmp_path):
        there = noetl(*run, "--task-folder", str(place))
        assert there.returncode == 2 and "cannot be given to tasks" in there.stdout, there
    done = noetl(*run, "--task-folder", ".")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])["result"]
    here = ["bin", "left.txt", "names.csv"]
    assert result["data"] == {"rows": 2, "look": {"outside": False, "own": True, "here": here}}
    assert result["stderr"] == (project / "left.txt").read_text() == "by a tool\nand python\n"
