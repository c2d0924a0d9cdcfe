"""Code of which the text shows that it can keep nothing for a later call."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import types
from pathlib import Path

import pytest

from noetl.kinds.sandbox.request import MOST_CHARACTERS
from noetl.kinds.sandbox.stateless import ATTRIBUTES, MODULES, keeps_nothing

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
    "one that a function has as a parameter elsewhere": "def f(vars): pass\ndef main(): return vars",
    "letters that become others": "result = ｅval('1')",
    "underscores that become others": "result = ().＿_class_＿",
    "not Python": "def",
    "a warning of the compiler": "result = n is 1",
    "too long": "n = 1\n" * (MOST_CHARACTERS // 6 + 1),
    "too deep": "(" * 300 + ")" * 300,
}


@pytest.mark.parametrize("code", KEEPS_NOTHING.values(), ids=KEEPS_NOTHING)
def test_code_that_works_on_its_values_keeps_nothing(code):
    assert keeps_nothing(code)


@pytest.mark.parametrize("code", MAY_KEEP.values(), ids=MAY_KEEP)
def test_all_other_code_may_keep_something(code):
    assert not keeps_nothing(code)


def test_the_documentation_lists_the_modules():
    page = (Path(__file__).parents[3] / "docs/kinds/python.md").read_text("utf-8")
    listed = page.partition("and with these modules:\n\n")[2].partition("\n\n")[0]
    assert re.findall(r"`([\w.]+)`", listed) == [name for name in MODULES if name != "__future__"]


FIXED = (int, float, str, bytes, bool, tuple, frozenset, type(None), types.MappingProxyType)
VALUES_OF = {"__future__", "datetime", "typing", "uuid"}
"""Modules of which constants are objects that no listed method changes."""
FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    functools._lru_cache_wrapper,
)


def reached(module: str) -> dict[str, object]:
    """What allowed attributes of a module are, also those that are listed for other things."""
    found = importlib.import_module(module)
    return {name: getattr(found, name) for name in ATTRIBUTES if hasattr(found, name)}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_leads_to_nothing_that_can_be_changed(module):
    """Functions and types are, but no attribute of them is set, and those that are read lead no further."""
    for name, value in reached(module).items():
        fixed = isinstance(value, (type, *FUNCTIONS, *FIXED)) or type(value).__module__ in VALUES_OF
        assert fixed, f"{module}.{name} is {value!r}"


@pytest.mark.parametrize("module", MODULES)
def test_a_type_of_a_module_has_only_methods_and_constants(module):
    for name, kind in reached(module).items():
        for attribute in ATTRIBUTES & set(dir(kind)) if isinstance(kind, type) else ():
            value = inspect.getattr_static(kind, attribute)
            assert not isinstance(value, (types.ModuleType, list, dict, set)), f"{module}.{name}.{attribute}"


def generator():
    yield


def inner_world():
    """Objects that lead from code to what it shares with other code."""
    made = generator()
    yield from (
        generator,
        made,
        made.gi_frame,
        generator.__code__,
        types,
        type,
        print,
        [].append,
        generator.__get__(1),
    )
    try:
        raise KeyError("x")
    except KeyError as error:
        yield from (error, error.__traceback__)


HARMLESS = {
    "generator": {"close"},  # at once, in the same call
    "frame": {"clear"},
    "code": {"replace"},  # makes another one
    "KeyError": {"args"},
}


def test_nothing_leads_into_the_inner_world():
    for thing in inner_world():
        name = type(thing).__name__
        assert set(dir(thing)) & ATTRIBUTES <= HARMLESS.get(name, set()), name
    assert not {
        name
        for name in ATTRIBUTES
        if name.startswith(("_", "gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_"))
    }
