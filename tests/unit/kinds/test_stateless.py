"""Code of which the text shows that it can keep nothing for a later call."""

from __future__ import annotations

import builtins
import functools
import importlib
import re
import types
from pathlib import Path

from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.kinds import python
from noetl.kinds.sandbox import stateless
from noetl.kinds.sandbox.request import MOST_CHARACTERS
from noetl.kinds.sandbox.stateless import MODULES, Kept, find_kept, keeps_nothing
from tests.parts import over

KEEPS_NOTHING = {
    "one value": "result = n + 1",
    "main": "def main(rows, rate=0.2):\n    return [{**row, 'tax': row['amount'] * rate} for row in rows if row]",
    "return": "if not rows:\n    return {}\nreturn {'n': len(rows)}",
    "indented": "    total = 0\n    for row in rows:\n        total += row['n']\n    return total",
    "modules": "import json, re\nfrom datetime import datetime as moment, UTC\nimport hashlib as h\n"
    "result = [json.dumps(a), re.sub('x', 'y', b), moment.now(UTC).isoformat(), h.sha256(b'').hexdigest()]",
    "quoting": "from urllib.parse import quote\nresult = quote(text)",
    "errors": "try:\n    result = int(text)\nexcept (ValueError, TypeError) as error:\n    raise RuntimeError(str(error)) from error",
    "patterns": "match value:\n    case {'kind': 'a', **rest}:\n        result = rest\n    case [first, *_]:\n        result = first",
    "none": "result = value is None or value is not True",
    "parameters": "def main(id, type, input, filter):\n    return [id, type, lambda: input, [filter for _ in range(2)]]",
    "printing": "print('a', n, sep='-')",
    "formats": "result = f'{n:>5} {text!r}' + '%s %(a)s' % {'a': 1}",
    "the name of the module": "def main(): return 1\nif __name__ == '__main__':\n    main()",
    "names of the playbook": "result = context['region'] or context.get('other')",
    "a generator": "def pairs():\n    for n in numbers:\n        yield n, n\nresult = dict(pairs())",
    "compiles what it is given": "import re\nresult = [re.search(pattern, text) is not None for text in texts]",
    "cleans texts": "import re\nresult = [re.sub(r'[\\s_]+', '-', t, flags=re.I | re.M) for t in texts]",
    "compiles": "import re\nword = re.compile(r'\\w+', re.ASCII)\nresult = word.findall(text)",
    "counts": "from collections import Counter\nresult = Counter(words).most_common(3)",
    "writes CSV": "import csv, io\nf = io.StringIO()\nw = csv.DictWriter(f, ['a'])\nw.writeheader()\nresult = f.getvalue()",
    "names types": "from typing import Any, Dict, Optional\ndef main(a: Dict[str, Any], b: Optional[str] = None) -> Any:\n    return a",
    "names types in those of Python": "from typing import Any, List, Optional\n"
    "def main(a: dict[str, Any], b: list[tuple[str, Any] | None], c: dict[str, Optional[int]]) -> list[dict[str, List[Any]]]:\n"
    "    return a",
    "sums": "result = sum(x * 2 for x in items) + len(', '.join(str(x) for x in items))",
    "finds the first": "result = next((x for x in items if x), None)",
    "makes ids": "import uuid\nresult = str(uuid.uuid5(uuid.NAMESPACE_URL, str(uuid.UUID(int=1))))",
    "has a class in an annotation": "from collections import Counter\ndef main(words) -> Counter:\n    return Counter(words)",
    "indented, with a module": "    import math\n    result = math.sqrt(4)",
    "return, with a module": "from datetime import datetime\nreturn datetime.fromisoformat(text).date()",
}
MAY_KEEP = {
    "another module": "import os",
    "a module in a module": "import json\nresult = json.decoder",
    "a file of the playbook": "from rates import RATE",
    "all names": "from json import *",
    "a package": "import urllib.parse\nresult = urllib.parse.quote('x')",
    "relative": "from . import json",
    "random numbers": "import random\nresult = random.random()",
    "settings": "import decimal\ndecimal.getcontext().prec = 3",
    "what a wrapper changes": "import json, functools\nfunctools.wraps(print)(json.dumps)",
    "an attribute that is set": "import json\njson.kept = 1",
    "a loop's attribute": "import json\nfor json.kept in [1]: pass",
    "an attribute that is removed": "import json\ndel json.loads",
    "names with underscores": "result = ().__class__",
    "one underscore": "result = context._ask",
    "builtins": "result = __builtins__",
    "frames": "def f(): yield\nresult = f().gi_frame",
    "texts that read attributes": "result = '{0.__class__}'.format(print)",
    "a class": "class A:\n    def __del__(self): print('later')",
    "what runs at an end": "def f():\n    try:\n        yield\n    finally:\n        print('later')\nf().send(None)",
    "a decorator": "@print\ndef main(): pass",
    "with": "with x: pass",
    "async": "async def main(): pass",
    "comparing objects": "result = text is 'known'",
    "comparing names": "result = a is b",
    "class patterns": "match value:\n    case str(__class__=found): result = found",
    "reading by name": "result = getattr(print, '__self__')",
    "the inner world": "result = globals()",
    "types": "result = type('A', (), {})",
    "files": "open('kept', 'w')",
    "a builtin in a function": "def main():\n    return vars",
    "one that another function has as a parameter": "def f(vars): pass\ndef main(): return vars",
    "letters that become others": "result = ｅval('1')",
    "underscores that become others": "result = ().＿_class_＿",
    "not Python": "def",
    "a warning of the compiler": "result = n is 1",
    "lambdas in lambdas": "x = " + "lambda: " * 101 + "1",
    "too long": "n = 1\n" * (MOST_CHARACTERS // 6 + 1),
    "too deep": "(" * 300 + ")" * 300,
}
HOLES = {
    "makes a class by a method of one": "from collections import Counter\nkind = Counter.copy(int)",
    "names a class of Python as a value": "from collections import Counter\nkinds = [Counter]\nkind = kinds[0].copy(int)",
    "takes a generic class for the class": "from collections import Counter\nkind = Counter[int].copy(int)",
    "names a class under another name": "import collections as c\nd = c\nkind = d.Counter.copy(int)",
    "names a class in an annotation": "from collections import Counter\nx: (y := Counter) = 1\nkind = y.copy(int)",
    "gives a class of Python to main": "from collections import Counter as main",
    "gives a class of Python to a function": "from csv import DictWriter\nresult = list(map(DictWriter, [1], [2]))",
    "asks which pattern is known": "import re\nre.compile('a', 0.0)",
    "asks which pattern is known, by a variable": "import re\nflags = 0.0\nre.search('a', 'a', flags=flags)",
    "asks which pattern is known, by a mapping": "import re\nre.search('a', 'a', **{'flags': 0.0})",
    "asks which pattern is known, by a list": "import re\nre.search(*['a', 'a', 0.0])",
    "asks which pattern is known, by an alias": "import re as r\nfind = r.search\nfind('a', 'a', 0.0)",
    "asks which pattern is known, by a map": "import re\nresult = list(map(re.compile, 'a', [0.0]))",
    "asks which pattern is known, as main": "from re import compile as main",
    "uses a flag of another value": "from re import I, compile\nI = 2.0\ncompile('a', I)",
    "keeps an equal type": "from typing import List\nresult = str(List[list[True]])",
    "keeps an equal union": "from typing import List, Union\nresult = str(List[Union[int, str]])",
    "keeps an equal union of an operator": "from typing import List\nresult = str(List[int | str])",
    "keeps an equal union, in a type of Python": "from typing import List, Union\nx = dict[str, List[Union[int, str]]]",
    "keeps an equal type, in a type of Python": "from typing import Any, List\nx = dict[str, List[list[True]]]",
    "keeps a union of a type in a variable": "from typing import List\nkind = List[int]\nresult = str(kind | list[stamp])",
    "keeps a union of a type": "from typing import List\nresult = str(List[int] | list[stamp])",
    "keeps a union of a type, in an annotation": "from typing import List\ndef f(x: List[int] | list[stamp]):\n    pass",
    "keeps a union of unions": "from typing import List\nx: dict[str, (List[int] | str) | bytes] = {}",
    "names a type in an annotation": "from typing import List\nx: (kind := List[int]) = 1\nresult = kind | list[stamp]",
    "changes a type": "from typing import List\nList |= list[stamp]\nresult = str(List)",
    "changes a module": "import re\nre += 1",
    "a type that is another thing": "from typing import List\ndict = List\nx = dict[list[True]]",
    "keeps an equal type, by a name": "import typing\nkind = typing.List\nresult = str(kind[list[1]])",
    "keeps an equal type, by a builtin": "from typing import List\nint = list[1]\nresult = str(List[int])",
    "keeps an equal type, in an annotation": "from typing import List\ndef f(x: List[list[1]]):\n    pass",
    "compiles the text of a type": "from typing import List\nx = List['1 is 1']",
    "is warned of when it is compiled": "x = 1\nassert (x, 'is a tuple')",
    "reaches a module by a module": "import uuid\nuuid.time.sleep(0)",
    "names a builtin in an annotation": "def f(x: eval('1')):\n    pass",
    "leaves a generator with an end": "def f():\n    try:\n        yield 1\n    except Exception:\n        pass",
    "leaves a generator of another one": "def f():\n    yield from [1]",
    "has an attribute that Python reads as another": "x = 1\nx.__ｃlass__",
    "has a text with a byte of zero": "x = 1\0",
    "indented, with a builtin": "    x = 1\n    eval('1')",
    "returns, with a builtin": "return eval('1')",
    "imports all": "from re import *",
    "imports a class as a builtin": "from collections import deque as __builtins__",
    "hides a builtin in a function": "def f():\n    return [eval for x in [1]]",
}
"""Code that looks harmless, and reaches what another call in its process reaches, too."""


@over("code", KEEPS_NOTHING.values(), ids=KEEPS_NOTHING)
def test_code_that_works_on_its_values_keeps_nothing(code):
    assert keeps_nothing(code)


@over("code", [*MAY_KEEP.values(), *HOLES.values()], ids=[*MAY_KEEP, *HOLES])
def test_all_other_code_may_keep_something(code):
    assert not keeps_nothing(code)


@over(
    ("code", "kept"),
    [
        ("import json\nimport os, re\n", Kept("`import os, re`", 2, 1)),
        ("result = [\n  open(name) for name in eval('names')\n]", Kept("`open`", 2, 3)),
        ("    import math\n    class A:\n        pass\n    return 1", Kept("`class A:`", 2, 5)),
        ("import re\nkept = re\nresult = kept.sub('a', 'b', c)", Kept("`re`", 2, 8)),
        ("def f():\n    try:\n        yield 1\n    finally:\n        g()", Kept("`(yield 1)`", 3, 9)),
        ("def f(vars): pass\nresult = {\n  'a': vars}", Kept("`vars`", 1, 7)),
        ("import os as json\n" + "n = 1\n" * 3000, Kept("it is longer than 16,384 characters")),
        ("result = {'a': 1}", None),
        ("x = 1\nmatch x:\n    case open:\n        pass", Kept("`open`", 3, 10)),
        ("x = 1\ndef f(__x):\n    return __x", Kept("`__x`", 2, 7)),
        ("def f():\n    global __name", Kept("`global __name`", 2, 5)),
        ("a = 'open'; b = open", Kept("`open`", 1, 17)),
        ("x = 'a\u2028b\x0cc'\ny = open('x')", Kept("`open`", 2, 5)),
        ("é = 'ééé'; open(é)", Kept("`open`", 1, 12)),
        (f"é = '{'é' * 80}'; f = lambda b: (a async for a in b)", Kept("`async for a in b`", 1, 116)),
    ],
)
def test_the_first_place_that_may_keep_something_is_shown(code, kept):
    assert find_kept(code) == kept


def test_lambdas_are_nested_up_to_a_limit():
    """The compiler needs half a second for two thousand, during which no other thread runs."""
    assert keeps_nothing("x = " + "lambda: " * 100 + "1")
    for begin in ("x = ", "    y = 1\n    return ", "return "):
        (problem,) = python.check({"code": begin + "lambda: " * 101 + "1"})
        assert "more than 100 lambdas are nested" in problem.message
    assert not python.check({"code": "x = [" + "lambda: 1, " * 200 + "]"})


def test_a_warning_of_the_compiler_has_its_line():
    kept = find_kept("x = 1\nassert (x, 'is a tuple')")
    assert kept.line == 2 and "assertion is always true" in kept.words


@over("code", [*MAY_KEEP.values(), *HOLES.values()], ids=[*MAY_KEEP, *HOLES])
def test_whatever_may_keep_something_has_a_place_in_the_code(code):
    kept = find_kept(code)
    assert kept.words and 1 <= kept.line <= len(code.splitlines()) and kept.column >= 1


FIXED = (str, bytes, int, float, complex, bool, type(None), type(NotImplemented), type(...), frozenset)
FUNCTIONS = (
    *(
        types.FunctionType,
        types.BuiltinFunctionType,
        types.MethodDescriptorType,
        types.ClassMethodDescriptorType,
    ),
    *(types.WrapperDescriptorType, types.MethodWrapperType, types.MethodType, types.GetSetDescriptorType),
    *(types.MemberDescriptorType, property),
)
CACHED = type(functools.lru_cache(len))
"""Of functions whose results are kept: none of its own attributes is allowed (see the test of dangerous objects)."""
FRAMES = (
    types.FrameType,
    types.CodeType,
    types.TracebackType,
    types.GeneratorType,
    types.ModuleType,
    types.CellType,
)


def _is_fixed(value):
    """Whether a value cannot be changed: of a type that has no setters, or of what is fixed."""
    import datetime
    import decimal
    import re
    import typing
    import uuid

    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_fixed, value))
    kinds = (
        datetime.date,
        datetime.time,
        datetime.timedelta,
        datetime.timezone,
        decimal.Decimal,
        re.RegexFlag,
        uuid.UUID,
    )
    return isinstance(value, (*FIXED, *kinds)) or type(value).__module__ == "typing" or value is typing.Any


def _reached(value):
    """Yield what allowed attributes of a value are, with their names."""
    for name in sorted(stateless.ATTRIBUTES):
        try:
            yield name, getattr(value, name)
        except (AttributeError, ValueError, TypeError):
            continue


@over("module", MODULES)
def test_a_module_leads_to_nothing_that_can_be_changed(module):
    """What is reached by allowed names is a function, a type or fixed, and so is what that leads to."""
    loaded = importlib.import_module(module)
    todo = [(name, getattr(loaded, name)) for name in MODULES[module].split() if hasattr(loaded, name)]
    assert todo
    seen = set()
    while todo:
        path, value = todo.pop()
        if id(value) in seen or path.count(".") > 3:
            continue
        seen.add(id(value))
        assert not isinstance(value, FRAMES), path
        value = getattr(value, "__wrapped__", value) if type(value) is CACHED else value
        if type(value).__name__ == "_Feature":  # of `__future__`, with nothing but dunder names and texts
            continue
        assert isinstance(value, (type, *FUNCTIONS)) or _is_fixed(value), path
        assert value is not type and not (isinstance(value, type) and issubclass(value, type)), path
        todo += [(f"{path}.{name}", inner) for name, inner in _reached(value)]


@over("module", MODULES)
def test_a_class_of_python_is_no_value(module):
    """A method that is written in Python takes any object as its own: such classes are only called."""
    loaded = importlib.import_module(module)
    for name in MODULES[module].split():
        value = getattr(loaded, name, None)
        if isinstance(value, type) and module != "typing":
            methods = [
                one
                for one, found in _reached(value)
                if isinstance(found, (types.FunctionType, types.MethodType))
            ]
            assert not methods or (module, name) in stateless._CALLED, (module, name, methods)


def _frames():
    def numbers():
        yield 1

    try:
        raise ValueError
    except ValueError as error:
        traceback = error.__traceback__
    generator = numbers()
    return {
        "function": numbers,
        "method": [].append,
        "code": numbers.__code__,
        "generator": generator,
        "frame": generator.gi_frame,
        "traceback": traceback,
        "module": types,
        "type": type,
        "cell": types.CellType(1),
        "property": property(numbers),
        "cached function": functools.lru_cache(numbers),
    }


@over("kind", _frames())
def test_what_is_dangerous_has_no_allowed_attribute(kind):
    """Allowed names lead from functions, frames and the like to no further object of Python's own."""
    value = _frames()[kind]
    led = {name for name, inner in _reached(value) if not isinstance(inner, types.BuiltinFunctionType)}
    assert led <= ({"close"} if kind == "generator" else set())
    assert not led & {"clear", "mro"}


def test_allowed_builtins_are_functions_or_types_that_make_no_classes():
    """No allowed builtin makes classes, runs text, or reads attributes by their names."""
    for name in stateless._BUILTINS - {"__name__"}:
        value = getattr(builtins, name)
        assert value is NotImplemented or value is ... or callable(value), name
        assert not (isinstance(value, type) and issubclass(value, type)), name
    refused = {
        "type",
        "object",
        "getattr",
        "setattr",
        "delattr",
        "vars",
        "dir",
        "globals",
        "locals",
        "eval",
        "exec",
    }
    assert not stateless._BUILTINS & {
        *refused,
        "compile",
        "open",
        "input",
        "super",
        "memoryview",
        "__import__",
        "id",
    }


def test_no_allowed_attribute_reads_attributes_by_name_or_is_private():
    """No name begins with an underscore, and none takes the names of attributes as text."""
    assert not [name for name in stateless.ATTRIBUTES if name.startswith("_")]
    assert not stateless.ATTRIBUTES & {
        "format",
        "format_map",
        "attrgetter",
        "methodcaller",
        "getcontext",
        "mro",
        "obj",
    }


@over(
    ("modules", "unseen"),
    [({}, True), ({"rates.py": "RATE = 1"}, True), ({"numbers.py": ""}, False), ({"json/own.py": ""}, False)],
)
def test_a_file_that_is_named_like_a_module_of_python_may_be_imported_by_one(modules, unseen):
    context = TaskContext(
        1, "s", "t", 1, "k", 1.0, TaskSettings(), lambda name: None, modules=modules, program="p"
    )
    assert (
        python.is_unseen({"code": "from decimal import Decimal\nresult = str(Decimal(n))"}, context) is unseen
    )
    assert not python.is_unseen({"code": "import rates\nresult = rates.RATE"}, context)


def test_the_page_of_the_kind_names_what_code_may_use():
    page = (Path(__file__).parents[3] / "docs" / "kinds" / "python.md").read_text("utf-8")
    rows = re.findall(
        r"^\| `([a-z_.0-9]+)` \| (`.*`) \|$", page.partition("### Names that code may use")[2], re.MULTILINE
    )
    assert {module: re.findall(r"`([^`]+)`", names) for module, names in rows} == {
        module: names.split() for module, names in MODULES.items()
    }
