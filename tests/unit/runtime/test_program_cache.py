"""A kept program is the compiled one, and is made again whenever it may not be."""

import subprocess
import sys

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.kinds.registry import Registry, default_registry
from noetl.runtime import program_cache
from noetl.runtime.local.keys import local_keys
from noetl.runtime.program_cache import ProgramCache, local_cache

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: kept, path: kept }\n"
TEXT = (
    HEAD
    + 'workflow:\n  - step: first\n    tool: { kind: noop, args: { n: "{{ workload.n | default(1) }}" } }\n  - step: never\n'
)


@pytest.fixture
def cache(tmp_path):
    return local_cache(tmp_path, default_registry())


def test_a_kept_program_is_the_compiled_one_with_its_warnings(cache, monkeypatch):
    compiled = compile_playbook(TEXT, source_name="f.yaml", kinds=default_registry())
    first = cache.compile(TEXT, "f.yaml")
    monkeypatch.setattr("noetl.dsl.compiler.compile_cached", None)
    kept = cache.compile(TEXT, "f.yaml")
    assert kept == first
    assert (kept.program, kept.warnings) == (compiled.program, compiled.diagnostics)
    assert [warning.severity for warning in kept.warnings] == ["warning"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text, name, patch: (text + "# more\n", name),
        lambda text, name, patch: (text, "g.yaml"),
        lambda text, name, patch: (
            patch.setattr(program_cache, "library_state", lambda: "other") or (text, name)
        ),
    ],
    ids=["text", "source name", "library"],
)
def test_another_text_name_or_library_is_compiled_again(cache, monkeypatch, change):
    cache.compile(TEXT, "f.yaml")
    cache.compile(*change(TEXT, "f.yaml", monkeypatch))
    assert len(list(cache.folder.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json", b"\xff" * 100])
def test_a_damaged_entry_counts_as_none(cache, damage):
    whole = cache.compile(TEXT, "f.yaml")
    (entry,) = cache.folder.iterdir()
    entry.write_bytes(damage)
    assert cache.compile(TEXT, "f.yaml") == whole
    assert entry.read_bytes() != damage


def test_what_is_invalid_is_never_kept(cache):
    for _ in range(2):
        with pytest.raises(InvalidPlaybookError):
            cache.compile(HEAD + "workflow: 7\n", "f.yaml")
    assert not cache.folder.exists()


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path):
    (tmp_path / "cache").write_text("a file stands here")
    assert local_cache(tmp_path, default_registry()).compile(TEXT, "f.yaml").program.name == "kept"


def test_with_kinds_of_others_nothing_is_kept(tmp_path):
    kinds = Registry(discover=False)

    assert ProgramCache(tmp_path, kinds).folder == tmp_path
    kinds._modules["theirs"] = "theirs.module"
    assert ProgramCache(tmp_path, kinds).folder is None


def test_old_entries_make_room(cache, monkeypatch):
    monkeypatch.setattr(program_cache, "MOST", 3)
    for number in range(5):
        cache.compile(TEXT + f"# {number}\n", "f.yaml")
    assert len(list(cache.folder.glob("*.json"))) == 3


def test_a_kept_playbook_does_not_load_the_compiler(cache, tmp_path):
    cache.compile(TEXT, "f.yaml")
    probe = (
        "import sys\nfrom pathlib import Path\nfrom noetl.kinds.registry import default_registry\n"
        "from noetl.runtime.program_cache import local_cache\n"
        "local_cache(Path(sys.argv[1]), default_registry()).compile(sys.argv[2], 'f.yaml')\n"
        "print('noetl.dsl.compiler' in sys.modules, 'pydantic' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", probe, str(tmp_path), TEXT], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False False\n"


def test_a_rewritten_or_moved_entry_is_ignored_with_a_line_in_the_log(tmp_path):
    """What a task writes into the cache is not what the next run of a playbook does."""
    lines = []
    cache = local_cache(tmp_path, default_registry(), lines.append)
    whole = cache.compile(TEXT, "f.yaml")
    (entry,) = cache.folder.iterdir()
    kept = entry.read_bytes()
    assert b'"first"' in kept
    other = TEXT.replace("step: first", "step: other")
    cache.compile(other, "f.yaml")
    (second,) = set(cache.folder.iterdir()) - {entry}
    foreign = local_cache(tmp_path / "other", default_registry())
    foreign.compile(TEXT, "f.yaml")
    (forged,) = foreign.folder.iterdir()
    for written in (
        kept.replace(b'"first"', b'"forged"'),
        kept.partition(b"\n")[2],
        second.read_bytes(),
        forged.read_bytes(),
    ):
        entry.write_bytes(written)
        del lines[:]
        assert cache.compile(TEXT, "f.yaml") == whole
        assert len(lines) == 1 and str(entry) in lines[0] and entry.read_bytes() == kept


@pytest.mark.parametrize("content", ["", "ab" * 16, "ab" * 40, "not a key " * 7, "ab" * 32 + " " + "cd" * 8])
def test_half_a_key_of_the_home_folder_is_refused_and_not_used(tmp_path, content):
    (tmp_path / "commands.key").write_text(content)
    with pytest.raises(InfrastructureError, match=r"commands\.key") as caught:
        local_keys(tmp_path)
    assert caught.value.code == "key_unreadable" and "remove it" in caught.value.hint
    assert (tmp_path / "commands.key").read_text() == content


def test_the_key_of_the_home_folder_is_made_once(tmp_path):
    first = local_keys(tmp_path / "home")
    assert local_keys(tmp_path / "home") == first
    assert (tmp_path / "home" / "commands.key").stat().st_mode & 0o077 == 0
