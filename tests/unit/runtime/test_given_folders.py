"""Folders that the one who runs gives to tasks: which are refused, and which are not."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.kinds.registry import ENTRY_POINT_GROUP
from noetl.kinds.sandbox import layers as found_layers
from noetl.kinds.sandbox import places
from noetl.kinds.sandbox.layers import Layers
from noetl.kinds.sandbox.places import Places, readable
from noetl.kinds.support.open_parts import open_parts
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.settings import Settings
from noetl.runtime.task_folders import VARIABLE, absolute, guard_programs, refuse_open_programs


def given(*folders: object, home: Path, **env: str) -> tuple[str, ...]:
    text = os.pathsep.join(map(str, folders))
    return Settings.from_env({"NOETL_HOME": str(home), VARIABLE: text, **env}).task_folders


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("bin", ".git", "data"):
        (folder / name).mkdir(parents=True)
    (folder / ".env").write_text("A=1")
    return folder


def test_a_folder_is_given_whole_and_in_order(project, tmp_path):
    assert given(project, project / "data", home=tmp_path / "home") == (str(project), f"{project}/data")
    assert given("", home=tmp_path / "home") == ()


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("/", "the root"),
        ("/etc", "/etc"),
        ("/etc/ssl", "/etc"),
        ("/proc/self/root", "the root"),
        ("/proc/1", "/proc"),
        ("/run/user", "/run"),
        ("/dev/shm/x", "/dev"),
        ("/usr/local/bin", "/usr"),
        ("/tmp", "/tmp"),
        ("~", "other things"),
        ("~/.ssh", "hidden folders"),
        ("~/.config/x/y", "hidden folders"),
        ("{home}", "where the engine keeps"),
        ("{home}/work", "where the engine keeps"),
        ("{root}", "where the engine keeps"),
        ("{root}/link", "where the engine keeps"),
        ("{root}/project/../home", "where the engine keeps"),
        ("{root}/keys", "where the engine keeps"),
        ("{root}/cache", "where the engine keeps"),
        ("{root}/other", "home folder"),
        ("{root}/other/.noetl/work", "home folder"),
        ("relative", "not absolute"),
        ("~nobody of that name", "no such home folder"),
        ("{root}/file", "no folder"),
        ("{root}/loop", "no folder"),
        ("{root}/project/data/out", "a link leads out"),
        ("{root}/deep/up/..", "where the engine keeps"),
    ],
)
def test_a_folder_with_secrets_is_refused(project, tmp_path, monkeypatch, folder, reason):
    home = tmp_path / "home"
    for name in ("home", "keys", "cache", "other/.noetl/work", "user"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (project / "data" / "out").symlink_to(Path("/srv"))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "up").symlink_to(tmp_path / "keys")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    text = folder.format(home=home, root=tmp_path)
    named = {
        "NOETL_CREDENTIALS": f"{tmp_path}/keys/file",
        "NOETL_STORAGE_LOCAL_CACHE_DIR": f"{tmp_path}/cache",
    }
    with pytest.raises(InvalidInputError, match="--task-folder, NOETL_TASK_FOLDERS") as refused:
        given(project, text, home=home, **named)
    assert refused.value.code == "setting_invalid" and reason in str(refused.value)


def test_the_home_folder_of_the_command_counts(project):
    """``--home`` wins over NOETL_HOME, and holds the secrets of this run."""
    with pytest.raises(InvalidInputError, match="where the engine keeps"):
        Settings.from_env({VARIABLE: str(project)}, home=project / "of this run")


def test_folders_with_the_usual_names_are_fine(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for folder in (tmp_path / "user" / "work", "/usr/src/app", "/srv/data", "/opt/app"):
        assert given(folder, home=tmp_path / "user/.noetl") == (str(folder),)


def test_a_name_means_what_it_means_to_the_system(project, tmp_path, monkeypatch):
    """Behind a link ``..`` is the folder above the place that it leads to."""
    (tmp_path / "way").symlink_to(project / "data")
    home = tmp_path / "home"
    assert given(f"{tmp_path}/way/../bin", home=home) == (f"{project}/bin",)
    assert given(f"/{project}", tmp_path / "way", home=home) == (str(project), f"{tmp_path}/way")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert given(project, home=home) == (str(project),), "a user of whom the system knows no home folder"
    assert list(open_parts(str(project), ())) == [str(project)]
    with pytest.raises(InvalidInputError, match="no such home folder"):
        given("~/x", home=home)


COVERED, OPEN = Layers(landlock=6, namespaces=True), Layers(landlock=6)


def programs_at(monkeypatch, library: Path) -> None:
    library.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(places, "library_path", lambda: [str(library)])


def test_programs_directly_in_a_folder_are_covered(project, monkeypatch):
    """The guest mounts them over it; the playbook's own folder may be written to there."""
    programs_at(monkeypatch, project / ".venv")
    kept = {target for _, target, _ in readable(Places((str(project / "data"),), (str(project),)))}
    assert str(project / ".venv") in kept and str(project / "data") not in kept
    for used in (COVERED, Layers(), Layers(other_user=True)):
        monkeypatch.setattr(found_layers, "layers", lambda used=used: used)
        refuse_open_programs([str(project)])


def test_programs_that_tasks_could_change_are_refused(project, tmp_path, monkeypatch):
    """Without namespaces, in a folder that could be renamed, and behind a link that could be replaced."""
    (tmp_path / "way").symlink_to(project)
    (project / "link").symlink_to(project / "data")
    for library, used in (
        (project / ".venv", OPEN),
        (project / "deep" / "er", COVERED),
        (project / "link", COVERED),
        (tmp_path / "way" / "link", COVERED),
    ):
        programs_at(monkeypatch, library)
        monkeypatch.setattr(found_layers, "layers", lambda used=used: used)
        for folder in (project, tmp_path / "way"):
            with pytest.raises(InvalidInputError, match="keeps tasks from changing them"):
                refuse_open_programs([str(folder)])
        refuse_open_programs([str(project / "bin")])


def test_a_place_of_modules_that_a_task_could_make_is_refused(project, monkeypatch):
    """It would be looked in by the next import. One in a place that is covered, such as the archive that Python names, is covered, too."""
    monkeypatch.setattr(found_layers, "layers", lambda: COVERED)
    library = project / ".venv"
    library.mkdir()
    monkeypatch.setattr(places, "library_path", lambda: [str(library), f"{library}/python.zip"])
    refuse_open_programs([str(project)])
    monkeypatch.setattr(places, "library_path", lambda: [f"{project}/lib"])
    with pytest.raises(InvalidInputError, match="keeps tasks from changing them"):
        refuse_open_programs([str(project)])


def test_modules_that_other_finders_know_count(project, monkeypatch):
    """Packages that are installed for editing, and kinds; not so the program that was started."""
    monkeypatch.setattr(found_layers, "layers", lambda: COVERED)
    loaded = ModuleType("loaded_of_a_test")
    loaded.__file__ = f"{project}/bin/loaded.py"
    refuse_open_programs([str(project)])
    monkeypatch.setitem(sys.modules, "__main__", loaded)
    refuse_open_programs([str(project)])
    finder = type("Finder", (), {"__module__": "finder_of_a_test", "find_spec": lambda *names: None})
    finders = ModuleType("finder_of_a_test")
    finders.MAPPING = {"kind_of_a_test": f"{project}/data/kind_of_a_test.py"}  # type: ignore[attr-defined]
    for name, module in (("finder_of_a_test", finders), ("loaded_of_a_test", loaded)):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, name, module)
            patched.setattr(sys, "meta_path", [*sys.meta_path, finder])
            with pytest.raises(InvalidInputError, match="keeps tasks from changing them"):
                refuse_open_programs([str(project)])


def test_a_folder_with_a_kind_of_its_own_is_refused(project, monkeypatch):
    """Its module is imported when a task first asks for it, by any finder."""
    kind = metadata.EntryPoint("x", "kind_of_a_test.module", ENTRY_POINT_GROUP)
    spec = ModuleSpec("kind_of_a_test", None, origin=f"{project}/data/kind_of_a_test/__init__.py")
    finder = SimpleNamespace(find_spec=lambda name, *more: spec if name == spec.name else None)
    monkeypatch.setattr(found_layers, "layers", lambda: COVERED)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    refuse_open_programs([str(project)])
    monkeypatch.setattr(metadata, "entry_points", lambda group: [kind] if group == kind.group else [])
    with pytest.raises(InvalidInputError, match="keeps tasks from changing them"):
        refuse_open_programs([str(project)])


def test_no_program_is_looked_for_in_a_given_folder(project, tmp_path, monkeypatch):
    """Beside those of an environment there, which are covered."""
    programs_at(monkeypatch, project / ".venv")
    (project / ".venv" / "bin").mkdir()
    (tmp_path / "way").symlink_to(project / "bin")
    monkeypatch.chdir(project)
    monkeypatch.setattr(found_layers, "layers", lambda: COVERED)
    for name in ("own", "linked"):
        (tmp_path / name).mkdir()
    (tmp_path / "linked" / "docker").symlink_to(project / "bin" / "docker")
    kept = [f"{project}/.venv/bin", "/usr/bin", f"{tmp_path}/own"]
    left = [f"{project}/bin", "", ".", f"{tmp_path}/way", f"{tmp_path}/linked"]
    monkeypatch.setenv("PATH", os.pathsep.join([*left, *kept, str(project)]))
    guard_programs([str(project)])
    assert os.environ["PATH"].split(os.pathsep) == kept


@pytest.mark.parametrize("name", ["AWS_CONFIG_FILE", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH"])
def test_a_folder_with_what_libraries_trust_is_refused(project, tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, str(tmp_path / "own"))
    refuse_open_programs([str(project)])
    (tmp_path / "way").symlink_to(project)
    monkeypatch.setenv(name, os.pathsep.join([str(tmp_path / "own"), str(tmp_path / "way" / "file")]))
    with pytest.raises(InvalidInputError, match=name):
        refuse_open_programs([str(project)])


def test_a_folder_whose_name_is_no_text_is_refused():
    with pytest.raises(InvalidInputError, match="UTF-8"):
        absolute(os.fsdecode(b"/srv/a\xff"))


def test_programs_are_found_by_every_name_of_a_folder(project, tmp_path, monkeypatch):
    (tmp_path / "way").symlink_to(project)
    programs_at(monkeypatch, tmp_path / "way" / ".venv")
    for folder in (project, tmp_path / "way"):
        monkeypatch.setattr(found_layers, "layers", lambda: COVERED)
        refuse_open_programs([str(folder)])
        monkeypatch.setattr(found_layers, "layers", lambda: OPEN)
        with pytest.raises(InvalidInputError):
            refuse_open_programs([str(folder)])


def test_a_function_has_no_such_folders(project):
    env = {"NOETL_RESULTS_BUCKET": "b", VARIABLE: str(project)}
    with pytest.raises(InvalidInputError, match="environment local"):
        CloudSettings.from_env({**env, "NOETL_ENV": "prod"})
    assert CloudSettings.from_env({**env, "NOETL_ENV": "local"}).task_folders == (str(project),)
