"""Programs of a process: which file a program has when its text was registered more than once."""

from __future__ import annotations

from noetl.adapters.memory import MemoryCatalog
from noetl.kinds.registry import default_registry
from noetl.runtime.programs import Programs

TEXT = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: it, path: it}\nworkflow:\n  - step: start\n"


def test_a_text_that_a_client_sends_takes_no_folder_from_the_file_of_this_machine() -> None:
    programs = Programs(MemoryCatalog(), default_registry())
    made = programs.register(TEXT, source_name="/srv/it.yaml").program
    assert programs.compile(TEXT, "sent.yaml").program.source_name == "sent.yaml"
    programs.register(TEXT, source_name="sent.yaml", path="other")
    assert programs(made).source_name == "/srv/it.yaml"
    programs.register(TEXT, source_name="/home/it.yaml")
    assert programs(made).source_name == "/home/it.yaml"


def test_another_process_finds_the_same_file_whatever_was_registered_first() -> None:
    for names in (("/srv/it.yaml", "sent.yaml"), ("sent.yaml", "/srv/it.yaml")):
        catalog = MemoryCatalog()
        for path, name in enumerate(names):
            made = Programs(catalog, default_registry()).register(TEXT, source_name=name, path=f"p{path}")
        assert Programs(catalog, default_registry())(made.program).source_name == "/srv/it.yaml"
