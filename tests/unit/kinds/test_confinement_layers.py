"""Which layers are used, what is said to be missing, which places a task is given, and who is refused without layers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import combinations

import pytest

from noetl.api.http.local_tokens import LocalTokens
from noetl.cli.commands import serve as serve_command
from noetl.domain.errors import InvalidInputError
from noetl.kinds.sandbox import layers
from noetl.kinds.sandbox.layers import SWITCHES, WITHOUT, Detected, Layers, choose_layers
from noetl.kinds.sandbox.noetl_guest.syscall_filter import MACHINES, program
from noetl.kinds.sandbox.places import Places, readable
from noetl.kinds.sandbox.process import count_threads
from noetl.runtime.local.machine_checks import check_confinement
from noetl.runtime.server import serve
from noetl.runtime.server.unconfined_code import refuse_unconfined_code
from noetl.runtime.settings import Settings
from tests.parts import over

HERE = Detected("linux", 7, "", "", "not root", False, "")


def missing(found: Detected) -> set[str]:
    return {one.name for one in choose_layers(found).protections if not one.by}


@over(
    ("found", "lacks"),
    [
        (HERE, set()),
        (Detected("linux", 7, "refused", "", "not root"), set()),
        (Detected("linux", 4, "refused", "", "not root"), {"signals"}),
        (Detected("linux", 7, "refused", "", "closed", root=True), {"processes"}),
        (Detected("linux", 0, "refused", "", "", root=True), set()),
        (Detected("linux", 0, "", "", "closed", root=True, process_limit="old"), {"processes"}),
        (Detected("linux", 0, "refused", "", "not root"), {"files", "signals", "memory"}),
        (
            Detected("darwin"),
            {
                "files",
                "sockets",
                "signals",
                "memory",
                "keys",
                "hidden memory",
                "leftovers",
                "processes",
                "disk",
            },
        ),
    ],
)
def test_layers_of_machines(found, lacks):
    assert missing(found) == lacks
    assert choose_layers(found).confines_files is ("files" not in lacks)


def test_the_filter_refuses_no_sockets_where_namespaces_and_landlock_do():
    assert choose_layers(HERE).key_filter, "no other layer closes keyrings"
    assert not choose_layers(HERE).socket_filter
    assert choose_layers(Detected("linux", 5, "", "", "not root")).socket_filter
    assert choose_layers(Detected("linux", 7, "refused", "", "not root")).socket_filter


@over("sockets", [True, False])
@over("machine", MACHINES)
def test_the_filter_ends_in_every_branch(machine, sockets):
    code = program(*MACHINES[machine], sockets=sockets)
    steps = [code[at : at + 8] for at in range(0, len(code), 8)]
    for place, step in enumerate(steps):
        if step[0] in (0x15, 0x35):
            assert place + 1 + max(step[2], step[3]) < len(steps)
    assert steps[-1][0] == 0x06


def targets(tmp_path, **places) -> set[str]:
    return {target for _, target, _ in readable(Places(**places)) if target.startswith(str(tmp_path))}


def test_what_is_hidden_is_given_in_no_folder(tmp_path):
    for name in ("books/play.yaml", "books/.noetl/token", "books/deep/data.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "books/way").symlink_to(tmp_path / "books/.noetl")
    books, home = str(tmp_path / "books"), str(tmp_path / "books/.noetl")
    assert targets(tmp_path, read=(books,)) == {books}
    assert targets(tmp_path, read=(books,), hidden=(home,)) == {f"{books}/play.yaml", f"{books}/deep"}
    assert targets(tmp_path, read=(home,), hidden=(home,)) == set()
    assert targets(tmp_path, read=(str(tmp_path / "books/way"),), hidden=(home,)) == set()


def test_of_the_users_own_folder_only_its_plain_files_are_given(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("play.yaml", ".netrc", ".aws/credentials", "projects/key"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    assert targets(tmp_path, read=(str(tmp_path),)) == {f"{tmp_path}/play.yaml"}


@pytest.mark.parametrize("folder", ["relative", "{home}", "{home}/work", "{parent}"])
def test_task_folders_that_would_open_the_home_folder_are_refused(tmp_path, folder):
    home = tmp_path / "home"
    home.mkdir()
    text = folder.format(home=home, parent=tmp_path)
    with pytest.raises(InvalidInputError, match="NOETL_TASK_FOLDERS"):
        Settings.from_env({"NOETL_HOME": str(home), "NOETL_TASK_FOLDERS": text})
    fine = f"{tmp_path}/a:{tmp_path}/b"
    assert Settings.from_env({"NOETL_HOME": str(home), "NOETL_TASK_FOLDERS": fine}).task_folders == (
        f"{tmp_path}/a",
        f"{tmp_path}/b",
    )


def test_narrow_tokens_are_refused_where_nothing_confines_code():
    nothing = Layers(supervisor=True)
    for harmless in (["admin", "worker"], ["admin", "execute"], ["read"], ["worker"]):
        refuse_unconfined_code(nothing, [("one", harmless)])
    for narrow in (["read", "execute"], ["write"]):
        with pytest.raises(InvalidInputError, match="'one'") as refused:
            refuse_unconfined_code(nothing, [("own", ["admin"]), ("one", narrow)])
        assert "--accept-unconfined-code" in (refused.value.hint or "")
        refuse_unconfined_code(choose_layers(HERE), [("one", narrow)])


ROOT = Detected("linux", 7, "", "", "", True, "")
"""A machine with everything, and a worker that is root."""
LEFT_OUT = [",".join(names) for count in range(6) for names in combinations(SWITCHES, count)]


@over("left_out", LEFT_OUT)
@over("machine", [HERE, ROOT], ids=["ordinary", "root"])
def test_each_combination_of_layers_is_reported(machine, left_out, monkeypatch):
    """``doctor`` and ``serve`` say the same, and tokens are refused where no layer keeps code from files."""
    monkeypatch.setattr(layers, "detect", lambda: machine)
    monkeypatch.setenv(WITHOUT, left_out)
    there = SWITCHES.keys() - set(left_out.split(","))
    user = "other_user" in there and machine.root and not {"landlock", "namespaces"} & there
    lacks = set()
    if not {"landlock", "namespaces"} & there and not user:
        lacks |= {"files", "signals", "memory"}
        lacks |= set() if "socket_filter" in there else {"sockets"}
    if not {"namespaces", "socket_filter"} & there and not user:
        lacks.add("sockets")
    if "socket_filter" not in there:
        lacks |= {"keys", "hidden memory"}
    if not {"namespaces", "subreaper"} & there:
        lacks.add("leftovers")
    if machine.root and "namespaces" not in there and not user:
        lacks.add("processes")
    found = {line.name: line for line in check_confinement()}
    told = found.pop("confinement", None)
    assert (told is not None and left_out in told.detail) is bool(left_out)
    assert {name for name, line in found.items() if line.status == "warning"} == {
        f"code: {one}" for one in lacks
    }
    assert {one.name for one in serve_command._missing()} == lacks
    confines = layers.layers().confines_files
    assert confines is ("files" not in lacks)
    if confines:
        refuse_unconfined_code(layers.layers(), [("one", ["write"])])
    else:
        with pytest.raises(InvalidInputError, match="'one'"):
            refuse_unconfined_code(layers.layers(), [("one", ["write"])])


def test_a_layer_that_nobody_knows_cannot_be_left_out(monkeypatch):
    monkeypatch.setattr(layers, "detect", lambda: HERE)
    monkeypatch.setenv(WITHOUT, "landlock, seccomp")
    with pytest.raises(InvalidInputError, match="'seccomp' is no layer") as refused:
        layers.layers()
    assert "socket_filter" in (refused.value.hint or "")


def test_a_server_refuses_or_accepts(tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "detect", lambda: HERE)
    monkeypatch.setenv(WITHOUT, "landlock,namespaces")
    settings = Settings(tmp_path)
    LocalTokens(tmp_path / "tokens.json").add("ci", ["read", "execute"])

    def server(**wish):
        return serve.Server(settings, serve.ServeSettings(port=0, **wish), on_log=lambda line: None)

    with pytest.raises(InvalidInputError) as refused:
        server()
    assert refused.value.code == "code_unconfined"
    for wish in ({"accept_unconfined": True}, {"external": ("python",)}, {"open_to_all": True}):
        server(**wish)


@pytest.mark.parametrize("found", [HERE, Detected("darwin")])
def test_doctor_has_a_line_for_each_protection(found, monkeypatch):
    monkeypatch.setattr(layers, "detect", lambda: found)
    lines = list(check_confinement())
    lacks = missing(found)
    assert {line.name for line in lines if line.status == "warning"} == {f"code: {name}" for name in lacks}
    assert len(lines) == 9
    assert all(line.fix for line in lines if line.status == "warning")


@pytest.mark.skipif(sys.platform != "linux", reason="there is nothing of it elsewhere")
def test_a_program_starts_without_costly_libraries():
    """What ``launch`` imports is read by every task: these took longer than all layers together."""
    modules = "launch", "landlock", "syscall_filter", "supervise"
    code = f"import sys; sys.path.insert(0, {layers.GUEST_FOLDER!r}); from noetl_guest import {', '.join(modules)}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"typing", "enum", "re", "json", "socket", "pathlib"} & set(done.stdout.split())


@pytest.mark.skipif(sys.platform != "linux", reason="there is nothing of it elsewhere")
def test_threads_of_a_user_are_counted():
    release = threading.Event()
    before = count_threads(os.geteuid())
    threads = [threading.Thread(target=release.wait) for _ in range(200)]
    for thread in threads:
        thread.start()
    try:
        assert count_threads(os.geteuid()) > before + 50, "others of this user may end meanwhile"
    finally:
        release.set()
        for thread in threads:
            thread.join()
    assert count_threads(0x7FFFFFF0) == 0
