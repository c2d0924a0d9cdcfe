"""Pages that repeat what the code says are compared with it."""

import inspect
import json
import re
import subprocess
import tomllib

import pytest
from source import PACKAGE, ROOT
from typer.testing import CliRunner

from noetl.cli.app import app
from noetl.domain import codec
from noetl.domain.event_names import NAMES
from noetl.domain.facts.facts import Fact
from noetl.domain.sizes.page import page
from noetl.domain.sizes.table import AREAS, DOCUMENT_DEPTH, SIZES
from noetl.domain.state import LEGAL_PHASE, LEGAL_STATUS
from noetl.runtime import settings, storage_settings
from noetl.runtime.aws import settings as cloud_settings
from noetl.services.history.read_history import SILENT
from tests.parts import over

DOCS = ROOT / "docs"
MAKE = re.compile(r"(?:^|`)make ([a-z-]+)(?=`|$| +[A-Z#])", re.MULTILINE)
"""A target that a page calls, in a line of its own or between backticks."""


def _moves(page: str, title: str) -> dict[str, frozenset[str]]:
    """The table under ``title``: state → the states that may follow."""
    section = page.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section, re.MULTILINE)
    return {state: frozenset(re.findall(r"`(\w+)`", after)) for state, after in rows}


def test_the_state_machine_page_is_the_table_of_the_code():
    page = (DOCS / "state-machine.md").read_text("utf-8")
    assert _moves(page, "Executions") == LEGAL_STATUS
    assert _moves(page, "Step runs") == LEGAL_PHASE


@pytest.mark.parametrize(("title", "table"), [("Executions", LEGAL_STATUS), ("Step runs", LEGAL_PHASE)])
def test_the_diagram_draws_the_same_moves(title, table):
    page = (DOCS / "state-machine.md").read_text("utf-8")
    section = page.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    drawn = {
        (start, end)
        for start, end in re.findall(r"^\s+(\S+) --> (\S+)", section, re.MULTILINE)
        if "[*]" not in (start, end)
    }
    assert drawn == {(state, after) for state, afters in table.items() for after in afters}


def test_every_dependency_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(d for group in project["optional-dependencies"].values() for d in group),
    ]
    names = {re.match(r"[A-Za-z0-9._-]+", one).group() for one in wanted}
    page = (DOCS / "dependencies.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `([A-Za-z0-9._-]+)`", page, re.MULTILINE))
    assert listed == names


def test_every_dependency_is_locked_with_hashes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    pinned = {match.lower() for match in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)}
    wanted = [
        *project["dependencies"],
        *(d for group in project["optional-dependencies"].values() for d in group),
    ]
    assert {re.match(r"[A-Za-z0-9._-]+", one).group().lower() for one in wanted} <= pinned


@pytest.mark.parametrize(
    "name", ["requirements.lock", "requirements-install.lock", "docs/site/requirements.lock"]
)
def test_every_entry_of_a_lock_has_hashes_and_no_place(name):
    lock = (ROOT / name).read_text("utf-8")
    entries = re.split(r"^(?=\S)", lock, flags=re.MULTILINE)[1:]
    assert entries and all("--hash=sha256:" in entry for entry in entries)
    assert not re.search(r"https?://|file:|--index|--find-links", lock)


def test_what_running_needs_is_locked_apart_with_the_same_pins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    def entries(name: str) -> dict[str, str]:
        lock = (ROOT / name).read_text("utf-8")
        found = re.split(r"^(?=\S)", lock, flags=re.MULTILINE)[1:]
        return {re.match(r"[A-Za-z0-9._-]+", one).group().lower(): one for one in found}

    def names(wanted: list[str]) -> set[str]:
        return {re.match(r"[A-Za-z0-9._-]+", one).group().lower() for one in wanted}

    running, everything = entries("requirements-run.lock"), entries("requirements.lock")
    assert running.items() <= everything.items()
    extras = project["optional-dependencies"]
    needed = names([*project["dependencies"], *extras["local"], *extras["aws"], *extras["build"]])
    assert needed <= running.keys()
    assert not (names([*extras["dev"], *extras["infra"]]) - {"packaging"}) & running.keys()


def test_running_installs_what_running_needs_and_tests_the_rest():
    def recipes(target: str) -> str:
        plan = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
        return subprocess.run(plan, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    running, everything = recipes("run"), recipes("setup")
    assert "-r requirements-run.lock" in running and "-r requirements.lock" not in running
    assert everything.index("-r requirements-run.lock") < everything.index("-r requirements.lock")
    assert all("--require-hashes" in line for line in everything.splitlines() if " -r " in line)


@pytest.mark.parametrize("settings", [settings, cloud_settings, storage_settings])
def test_every_setting_is_documented(settings):
    read = set(re.findall(r'"(NOETL_[A-Z_]+)"', inspect.getsource(settings)))
    page = (DOCS / "configuration.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `(NOETL_[A-Z_]+)`", page, re.MULTILINE))
    assert read
    assert read <= documented


def _numeric_defaults() -> list[tuple[str, str]]:
    """Variables of one machine whose documented default is a number."""
    page = (DOCS / "configuration.md").read_text("utf-8")
    known = set(
        re.findall(r'"(NOETL_[A-Z_]+)"', "".join(map(inspect.getsource, (settings, storage_settings))))
    )
    found = re.findall(r"^\| `(NOETL_[A-Z_]+)` \| `(\d+)`", page, re.MULTILINE)
    return [(name, default) for name, default in found if name in known]


@over(("name", "default"), _numeric_defaults())
def test_the_documented_default_of_a_setting_is_its_default(name, default):
    home = {"NOETL_HOME": "/home"}
    unset = settings.Settings.from_env(home)
    assert settings.Settings.from_env({**home, name: default}) == unset
    assert settings.Settings.from_env({**home, name: str(int(default) + 1)}) != unset


def test_settings_have_documented_defaults():
    assert len(_numeric_defaults()) >= 18


def test_every_command_is_documented():
    pages = "".join(page.read_text("utf-8") for page in (DOCS / "cli").glob("*.md"))
    commands = {command.name or command.callback.__name__.rstrip("_") for command in app.registered_commands}
    groups = {
        f"{group.name} {command.name or command.callback.__name__.rstrip('_')}"
        for group in app.registered_groups
        for command in group.typer_instance.registered_commands
    }
    documented = re.findall(r"^##+ `noetl ([a-z -]+?)`", pages, re.MULTILINE)
    assert sorted(documented) == sorted(commands | groups)


def test_the_help_lists_first_what_a_newcomer_runs():
    listed = CliRunner().invoke(app, ["--help"]).output.split("\nRun:\n", 1)[1].split()
    assert listed[0] == "init" and listed.index("status") < listed.index("deploy")


def test_the_page_of_limits_is_the_table_of_the_code():
    assert (DOCS / "limits.md").read_text("utf-8") == page()


def test_the_depth_that_json_is_kept_with_is_the_one_of_the_table():
    """The codec is below the table, and has its own number."""
    assert DOCUMENT_DEPTH.value == codec.MAX_DEPTH


def test_no_limit_has_two_names():
    assert len({size.name for size in SIZES}) == len(SIZES)
    assert {size.area for size in SIZES} == set(AREAS)


def test_every_fact_has_a_name_in_the_vocabulary():
    told = {kind.__struct_config__.tag for kind in Fact.__args__} - SILENT
    assert told <= NAMES.keys()


def test_every_kind_of_finding_is_documented():
    page = (DOCS / "api" / "analyze.md").read_text("utf-8")
    section = page.split("## Why does it not progress?\n", 1)[1].split("\n## ", 1)[0]
    text = "".join(file.read_text("utf-8") for file in (PACKAGE / "services").rglob("*.py"))
    kinds = {
        name
        for call in re.findall(r"\bFinding\(\s*([^\n,]+),", text)
        for name in re.findall(r'"(\w+)"', call)
    }
    assert {"failed_step", "failed_arc", "processes_died"} <= kinds
    assert kinds <= set(re.findall(r"`([a-z_]+)`", section))


def test_files_the_readme_names_exist():
    page = (ROOT / "README.md").read_text("utf-8")
    for name in ("executions/start_execution", "orchestrator/handle_events", "worker/run_command"):
        assert f"services/{name}.py" in page
        assert (PACKAGE / "services" / f"{name}.py").is_file()
    assert "pipeline/machine.py" in page
    assert "engine/handle_event.py" in page


def test_the_playbook_of_the_tour_compiles_without_a_warning():
    from noetl.dsl.compiler import compile_playbook
    from noetl.kinds.registry import default_registry

    (text,) = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert compile_playbook(text, source_name="README.md", kinds=default_registry()).diagnostics == ()


def test_make_targets_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")]
    named = {target for page in pages for target in MAKE.findall(page.read_text("utf-8"))}
    assert {"run", "test", "docs"} <= named
    assert named <= targets, sorted(named - targets)


def test_the_web_ui_names_schemas_that_the_document_of_the_api_has():
    """Its types are generated by a build, which machines without Node leave out."""
    known = json.loads((DOCS / "openapi.json").read_text("utf-8"))["components"]["schemas"].keys()
    named = {
        name
        for path in (ROOT / "ui/src").rglob("*.ts*")
        if path.name != "schema.d.ts"
        for name in re.findall(r'[sS]chemas(?:"\])?\["(\w+)"\]', path.read_text("utf-8"))
    }
    assert len(named) > 20 and named <= known, sorted(named - known)
