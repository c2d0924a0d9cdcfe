"""What python code is given, what it may give back, and how its mistakes are told."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator

import pytest

from noetl.domain.kinds import TaskSettings
from noetl.kinds.sandbox import pool, request
from noetl.kinds.sandbox.child import Owner
from noetl.kinds.sandbox.noetl_guest.usercode import FILENAME, compile_code
from noetl.kinds.sandbox.pool import _start as start
from noetl.kinds.sandbox.request import MOST_CHARACTERS
from tests.integration.kinds_sandbox.conftest import Task


@pytest.mark.parametrize(
    ("code", "given", "result"),
    [
        ("result = {'n': n + 1}", {"n": 1}, {"n": 2}),
        ("result = input_data", {"a b": 1, "class": 2, "n": 3}, {"a b": 1, "class": 2, "n": 3}),
        ("x = 1", {}, None),
        ("result = '{{ n }} {% x %}'", {}, "{{ n }} {% x %}"),
        ("pass", {"result": 5}, None),
        ("result = result + 1", {"result": 5}, 6),
        ("  result = 1\n  result += 1", {}, 2),
        ("def main():\n    return [1]", {}, [1]),
        ("def main(n, m=2, *, k=3):\n    return [n, m, k]", {"n": 1, "k": 9}, [1, 2, 9]),
        ("def main(a, b=2, /, c=3):\n    return [a, b, c]", {"a": 1, "c": 4}, [1, 2, 4]),
        ("def main(input_data):\n    return input_data", {"x": 1}, {"x": 1}),
        ("def main(n, **rest):\n    return rest", {"n": 1, "o": 2, "p": 3}, {"o": 2, "p": 3}),
        ("def main(region):\n    return region", {}, "north"),
        ("def main(region='south'):\n    return region", {}, "north"),
        ("def main(region):\n    return region", {"region": "west"}, "west"),
        ("def main(absent='south'):\n    return absent", {}, "south"),
        ("async def main(n):\n    import asyncio\n    await asyncio.sleep(0)\n    return n", {"n": 1}, 1),
        ("def main(n):\n    return n\nresult = main(n) + 1", {"n": 1}, 2),
        ("def main():\n    return 1\nif __name__ == '__main__':\n    result = 'run twice'", {}, 1),
        ("import functools\nmain = functools.partial(lambda a, b: a + b, b=2)", {"a": 1}, 3),
        ("n = n + 1\nif n > 5:\n    return 'big'\nresult = n", {"n": 1}, 2),
        ("n = n + 1\nif n > 5:\n    return 'big'\nresult = n", {"n": 9}, "big"),
        ("def twice(x):\n    return x * n\nreturn twice(3)", {"n": 2}, 6),
        ("from __future__ import annotations\nx: int = 1\nreturn x", {}, 1),
        ("if n:\n    return 1", {"n": 0}, None),
        ("return result", {"result": 5}, 5),
        (
            "from __future__ import annotations\nimport dataclasses\n"
            "@dataclasses.dataclass\nclass P:\n    x: int\nresult = P(1)",
            {},
            {"x": 1},
        ),
        ("result = [n, n * n]", {"n": 10**23}, [10**23, 10**46]),
        ("result = text", {"text": "\ud800 \0 é 🙂 {{7*7}}"}, "\ud800 \0 é 🙂 {{7*7}}"),
    ],
)
def test_result(python_task, code, given, result):
    python_task.scope = {"region": "north"}
    assert python_task.run({"code": code}, given).result == result


@pytest.mark.parametrize(
    ("code", "name", "words", "line"),
    [
        ("x = 1\n\ny = x / 0", "ZeroDivisionError", "division by zero (line 3: y = x / 0)", 3),
        ("def main(q):\n    return q", "TypeError", "main() needs 'q': not in args (given: n)", None),
        ("def main(q):\n    return q", "TypeError", "or give the parameter a default", None),
        ("import josn", "ModuleNotFoundError", "did you mean 'json'? Else name a file", 1),
        ("import json\nx = 2\njson.loads('{')", "JSONDecodeError", "(line 3: json.loads('{'))", 3),
        ("x = 1\ny = (", "SyntaxError", "'(' was never closed (line 2: y = ()", 2),
        ("result = workload", "NameError", "passed under input", 1),
        (
            "import no_such_library",
            "ModuleNotFoundError",
            "or a library under `executor.spec.requirements`",
            1,
        ),
        ("open('/no/such/file')", "FileNotFoundError", "may read the folder of its playbook", 1),
        ("import os\nraise OSError(30, os.strerror(30), '/data')", "OSError", "one of NOETL_TASK_FOLDERS", 2),
        ("import sys\nsys.exit('enough')", "SystemExit", "SystemExit: enough", 2),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "line 1", 1),
        ("def f():\n    return f()\nf()", "RecursionError", "maximum recursion depth", 2),
        ("raise ValueError('x' * 10**6)", "ValueError", "xxx", 1),
        ("class E(Exception):\n  def __str__(self): 1/0\nraise E", "E", "its message cannot be read", 3),
        ("n = n + 1\nif n:\n    raise ValueError('no')\nreturn 1", "ValueError", "(line 3: raise", 3),
    ],
)
def test_exceptions_name_their_place(python_task, code, name, words, line):
    error = python_task.error({"code": code}, {"n": 1})
    assert (error.kind, error.code, error.retryable) == ("transform", name, False)
    assert words in str(error)
    assert error.details.get("line") == line
    assert len(str(error)) < 5000
    assert python_task.run({"code": "result = 'next'"}).result == "next"


def test_traceback_shows_the_code_only(python_task):
    code = (
        "import json\n\ndef load(text):\n    return json.loads(text)\n\ndef main():\n    return load('{')\n"
    )
    error = python_task.error({"code": code})
    assert error.details["traceback"] == [
        "line 7, in main: return load('{')",
        "line 4, in load: return json.loads(text)",
    ]


@pytest.mark.parametrize(
    ("code", "code_of_error", "words"),
    [
        ("result = {'a': [1, float('nan')]}", "result_not_json", "result['a'][1] is nan"),
        ("result = {(1,): 2}", "result_not_json", "JSON keys are text"),
        ("result = open('/dev/null')", "result_not_json", "TextIOWrapper"),
        ("result = 'x' * 2_000_000", "result_too_large", "at most 1000000 are allowed"),
        ("def main():\n    yield 1", "result_not_json", "give list(…) of it"),
    ],
)
def test_results_that_cannot_be_kept(python_task, code, code_of_error, words):
    error = python_task.error({"code": code}, settings=TaskSettings(output_max_bytes=1_000_000))
    assert (error.kind, error.code) == ("transform", code_of_error)
    assert words in str(error)
    assert python_task.run({"code": "result = 'next'"}).result == "next"


def test_output_is_log(python_task):
    code = (
        "import os, sys, subprocess\n"
        "print('first')\n"
        "print('oops', file=sys.stderr)\n"
        "os.write(1, b'raw \\xff\\n')\n"
        "subprocess.run(['echo', 'from a program'])\n"
        "sys.stdout.write('no end')\n"
    )
    result = python_task.run({"code": code})
    assert python_task.log == ["first", "oops", "raw \ufffd", "from a program", "no end"]
    assert result.meta == {"py": {"lines": 5}}


def test_output_of_a_failed_call_is_kept(python_task):
    python_task.error({"code": "print('before')\nimport os\nos._exit(1)"})
    assert python_task.log == ["before"]


def test_much_output_is_cut(python_task):
    python_task.run({"code": "for n in range(100_000):\n    print('line', n)"})
    assert sum(map(len, python_task.log)) < 300_000
    assert python_task.log[0] == "line 0"
    assert python_task.log[-1] == "… output after 262144 bytes is not kept"


def test_calls_do_not_see_each_other(python_task):
    python_task.run(
        {"code": "secret = 1\nimport builtins\nbuiltins_of_call = 2\nresult = None"}, {"given": 1}
    )
    assert python_task.run({"code": "result = [n in globals() for n in ('secret', 'given')]"}).result == [
        False,
        False,
    ]


def test_large_values_pass(python_task):
    rows = [{"id": number, "text": "é" * 50} for number in range(20_000)]
    result = python_task.run({"code": "result = rows[::-1]"}, {"rows": rows}).result
    assert result == rows[::-1]


def test_scope_is_asked_only_for_what_is_missing(python_task):
    asked = []

    class Scope(dict):
        def __getitem__(self, name):
            asked.append(name)
            return super().__getitem__(name)

    python_task.scope = Scope(region="north")
    code = "def main(n, region, limit=3):\n    return [n, region, limit]"
    assert python_task.run({"code": code}, {"n": 1}).result == [1, "north", 3]
    assert asked == ["region", "limit"]


def test_a_warning_about_code_is_output_of_its_task(python_task):
    """The worker compiles code, and its own output is no place for that."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=SyntaxWarning, module=re.escape(FILENAME))  # as in a worker
        assert python_task.run({"code": "result = (1 is 1)"}).result is True
    assert "SyntaxWarning" in python_task.log[0] and python_task.log[0].startswith("<code>:1:")


def test_code_that_is_too_long_for_the_worker_to_compile_does_the_same(python_task):
    padding = "# \n" * MOST_CHARACTERS
    assert python_task.run({"code": padding + "return n + 1"}, {"n": 1}).result == 2
    error = python_task.error({"code": padding + "x = 1 / 0"})
    assert error.code == "ZeroDivisionError" and error.details["line"] == MOST_CHARACTERS + 1


def test_code_is_compiled_once_for_all_executions(monkeypatch):
    """Each execution has a process of its own, which would compile the same code again."""
    compiled: list[str] = []
    monkeypatch.setattr(
        request, "compile_code", lambda code, names: (compiled.append(code), compile_code(code, names))[1]
    )
    code = "result = n + 1  # as no other test has it"
    assert [Task("python").run({"code": code}, {"n": number}).result for number in range(3)] == [1, 2, 3]
    assert compiled == [code]


KEEP = "import sys\nkept = getattr(sys, 'kept', 0)\nsys.kept = kept + 1\nresult = [kept, 'kept_before' in globals()]\nkept_before = 1"


@pytest.fixture
def own_pool(monkeypatch) -> Iterator[None]:
    """A pool without the idle processes of other tests, which would have those of these executions end."""
    made = pool.ChildPool(8)
    monkeypatch.setattr(pool, "_shared", made)
    yield
    made.close()


def test_executions_of_a_program_share_a_process_of_code_that_keeps_nothing(own_pool, monkeypatch):
    started: list[Owner] = []
    monkeypatch.setattr(pool, "_start", lambda owner: (started.append(owner), start(owner))[1])
    first, second, other = Task("python"), Task("python"), Task("python")
    first.program = second.program = "glue"
    other.program = "more glue"
    for one, code in ((first, "result = n"), (second, "result = n + 1"), (other, "result = n")):
        one.run({"code": code}, {"n": 1})
    assert [(owner.program, owner.stateless) for owner in started] == [("glue", True), ("more glue", True)]
    first.run({"code": KEEP, "process": "playbook"})
    first.run({"code": "result = n", "process": "execution"}, {"n": 1})
    first.run({"code": KEEP})
    assert [(owner.program, owner.stateless) for owner in started[2:]] == [("glue", False), ("", False)]


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process knows its address space")
@pytest.mark.parametrize("parts", [(0.6, 0.6), (0.3, 0.8), (0, 0.4, 0.7)])
def test_an_execution_has_the_memory_that_no_other_one_keeps(parts):
    """Values beside a function are kept until Python looks for them, which may be in a later call."""
    code = "def size(x):\n    return len(x)\n\ndata = bytearray(n)\nresult = size(data)"
    memory = 256 << 20
    for part in parts:
        task = Task("python")
        task.program = f"memory {parts}"
        wanted = int(part * memory)
        found = task.run({"code": code}, {"n": wanted}, settings=TaskSettings(python_memory_bytes=memory))
        assert found.result == wanted


def test_a_process_without_output_is_not_used_again_after_a_result_that_is_too_large(python_task):
    large = "import sys\nprint('first')\nsys.stdout.close()\nresult = 'x' * 2_000_000"
    settings = TaskSettings(output_max_bytes=1_000_000)
    assert python_task.error({"code": large}, settings=settings).code == "result_too_large"
    python_task.run({"code": "print('second')", "process": "execution"}, settings=settings)
    assert python_task.log == ["second"]


def test_executions_of_a_program_share_a_process_where_its_code_says_so(own_pool):
    first, second, other = Task("python"), Task("python"), Task("python")
    other.program = "another"
    assert [first.execution_id, first.program] != [second.execution_id, first.program]
    shared = {"code": KEEP, "process": "playbook"}
    found = [one.run(shared).result for one in (first, second, other, first)]
    assert found == [[0, False], [1, False], [0, False], [2, False]], "modules stay, variables do not"
    own = {"code": KEEP, "process": "execution"}
    assert [one.run(own).result for one in (first, second)] == [[0, False], [0, False]]
    assert first.run({"code": KEEP}).result == [1, False], "as it is without the parameter"


@pytest.mark.parametrize("process", ["worker", "", 1, None, ["playbook"]])
def test_nothing_else_shares_a_process(python_task, process):
    error = python_task.error({"code": "result = 1", "process": process})
    assert error.kind == "schema"
    assert "process" in str(error)
