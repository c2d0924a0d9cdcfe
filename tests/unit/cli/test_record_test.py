"""``noetl test --from``: a test file out of an execution."""

from __future__ import annotations

from pathlib import Path

STEPS = """workload: { seed: 4, password: hunter2 }
workflow:
  - step: start
    tool: { kind: python, input: { seed: "{{ workload.seed }}" }, code: "CODE" }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, input: { twice: "{{ start }}" } } }
"""


def test_the_test_of_an_execution_is_written_and_passes_until_the_code_changes(noetl, write, tmp_path: Path):
    write("play.yaml", STEPS.replace("CODE", "result = seed * 2"))
    assert noetl("run", "play.yaml").code == 0
    ran = noetl("test", "play.yaml", "--from", "latest")
    assert (ran.code, "1 case: 1 passed" in ran.out) == (0, True), ran
    made = (tmp_path / "play.test.yaml").read_text()
    assert "twice: 8" in made and "hunter2" not in made and "\n    tools:" not in made
    write("play.yaml", STEPS.replace("CODE", "result = seed * 3"))
    assert "1 failed" in noetl("test", "play.yaml").out
    again = noetl("test", "play.yaml", "--from", "latest")
    assert (again.code != 0, "move it away" in again.err) == (True, True), again


def test_code_with_another_outcome_each_time_is_replaced_by_its_recorded_result(noetl, write, tmp_path: Path):
    write("play.yaml", STEPS.replace("CODE", "import uuid; result = str(uuid.uuid4())"))
    noetl("run", "play.yaml")
    ran = noetl("test", "play.yaml", "--from", "latest")
    assert (ran.code, "its recorded results are replies" in ran.err) == (0, True), ran
    assert "\n    tools:" in (tmp_path / "play.test.yaml").read_text()


def test_no_link_beside_the_playbook_is_followed(noetl, write, tmp_path: Path):
    """Not even one that leads to no file yet: it would be made there."""
    write("play.yaml", STEPS.replace("CODE", "result = seed * 2"))
    noetl("run", "play.yaml")
    (tmp_path / "play.test.yaml").symlink_to(tmp_path / "other")
    ran = noetl("test", "play.yaml", "--from", "latest")
    assert "play.test.yaml exists" in ran.err, ran
    (tmp_path / "tour.yaml").symlink_to(tmp_path / "other")
    ran = noetl("init", "tour")
    assert "is there already" in ran.err, ran
    assert not (tmp_path / "other").exists()


def test_from_needs_the_file_of_the_playbook(noetl):
    ran = noetl("test", "--from", "latest")
    assert (ran.code, "noetl test weather.yaml --from latest" in ran.err) == (2, True), ran
