"""Code of two executions of one program: neither sees what the other one did."""

from __future__ import annotations

import sys

import pytest

from noetl.domain.kinds import TaskSettings
from tests.integration.kinds_sandbox.conftest import Task


def _pair(program: str) -> tuple[Task, Task]:
    first, second = Task("python"), Task("python")
    first.program = second.program = program
    return first, second


ASK = "import re\ntry:\n    re.compile('the secret', 0.0)\n    result = 'known'\nexcept TypeError:\n    result = 'unknown'\n"


def test_no_execution_learns_which_pattern_another_one_used():
    """A pattern that is known is found by flags that are equal, and are no flags."""
    first, second = _pair("patterns")
    first.run({"code": "import re\nresult = re.sub('the secret', '', text)"}, {"text": "a"})
    assert second.run({"code": ASK}).result == "unknown"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import re\nresult = bool(re.match('[[a]', 'a'))", "FutureWarning"),
        ("x = 5\nassert (x, 'is a tuple')\nresult = x", "SyntaxWarning"),
    ],
)
def test_a_warning_is_in_the_log_of_each_execution(code, words):
    """Python warns once in a process, and remembers patterns: each log is what it would be alone."""
    logs = []
    for task in (*_pair(words), _pair(words)[0]):
        assert task.run({"code": code}, {"n": 1}).result is not None
        logs.append(task.log)
    assert words in logs[0][0]
    assert logs == [logs[0]] * 3


def test_no_execution_meets_a_type_that_another_one_made():
    """``typing`` gives back the type that it made first of those that are equal."""
    first, second = _pair("types")
    code = "from typing import List\nresult = str(List[list[{}]])"
    assert first.run({"code": code.format(True)}).result == "typing.List[list[True]]"
    assert second.run({"code": code.format(1)}).result == "typing.List[list[1]]"


CLASS = """from collections import Counter
kind = Counter.copy(int)
made = kind('Late', (), {'__del__': lambda self: print('the secret')})
items = [made()]
items.append(items)
"""


def test_nothing_of_an_execution_ends_in_another_one():
    """A class would print when its last object is removed, long after its call."""
    first, second = _pair("classes")
    first.run({"code": CLASS})
    second.run({"code": "result = len([[] for x in range(200000)])"})
    assert second.log == []


FULL = """blocks = []
size = 1 << 24
while size >= 512:
    try:
        blocks.append(bytearray(size))
    except Exception:
        size = size // 2
try:
    found = len(context['big'])
except Exception:
    found = 0
blocks.clear()
result = found
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there memory is limited by the kernel")
def test_an_answer_that_found_no_memory_is_not_the_next_call():
    """The process ends instead, as it would read the answer's rest as the next call."""
    first, second = _pair("answers")
    settings = TaskSettings(python_memory_bytes=256 << 20)
    first.scope["big"] = "a" * 50_000
    assert first.run({"code": FULL}, settings=settings).result == 0
    assert second.run({"code": "result = 1"}, settings=settings).result == 1


DEEP = """import itertools
chained = iter([])
for _ in range(700_000):
    chained = itertools.takewhile(bool, chained)
held = [chained]
held.append(held)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="only there a process is replaced for what calls left in it"
)
@pytest.mark.parametrize("lines", [4, 6], ids=["by its namespace", "by a circle"])
def test_what_is_freed_in_the_call_of_another_execution_fits_onto_its_stack(lines):
    """Each iterator is freed within the one before it: so many end the process with a stack of 8 MiB."""
    first, second = _pair("deep")
    code = "\n".join([*DEEP.splitlines()[:lines], "result = 1"])
    assert first.run({"code": code}).result == 1
    assert (
        second.run({"code": "import itertools\nresult = len([[] for _ in range(300_000)])"}).result == 300_000
    )


CROWDED = """
holes = [bytes(400) for _ in range(60000)]
heap = [bytes(60000) for _ in range(300)]
last = bytes(60000)
full = []
size = 1 << 28
while size >= 1 << 14:
    try:
        full.append(bytearray(size))
    except Exception:
        size //= 2
few = holes[::2000]
heap = holes = None
try:
    import decimal
    result = 'imported'
except Exception as error:
    result = str(error)
full = few = None
"""
"""Leaves no room for a library, and some for the modules that do without it."""


@pytest.mark.skipif(sys.platform != "linux", reason="only there memory is limited by the kernel")
def test_a_module_that_was_imported_without_room_is_not_that_of_another_execution():
    first, second = _pair("crowded")
    look = "from decimal import Decimal\nresult = repr(Decimal.quantize)"
    alone = Task("python").run({"code": look}).result
    assert first.run({"code": CROWDED}).result == "imported"
    assert second.run({"code": look}).result == alone
