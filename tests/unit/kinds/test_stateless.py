"""Code of which the text shows that it can keep nothing for a later call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.kinds.sandbox.request import MOST_CHARACTERS
from noetl.kinds.sandbox.stateless import MODULES, keeps_nothing

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
