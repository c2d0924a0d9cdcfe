"""Versions of the compiler and of the language's meaning, and a program's hash of them."""

from __future__ import annotations

import hashlib

from noetl.dsl.program import PROGRAM_VERSION

_COMPILERS = {1: 3, 2: 4, 3: 8, 4: 9, 5: 10, 6: 11, 7: 12, 8: 13, 9: 14, 10: 15, 11: 16}
"""Meaning → version of the compiler. A change of lowering raises the version of the newest meaning: it is part of a program's hash."""
SEMANTICS = max(_COMPILERS)
"""Meaning of a Program, raised when engine and workers must treat new programs differently from stored ones.

2: an entry of ``case`` that tests no event is offered after the call, and never at ``step.enter``; ``response`` and ``this`` are the whole
envelope at the end of a step.

3: a name in a guard that is not defined is false; the step's ``args`` are the input of tasks that have none; a result with more keys than those
of an envelope is kept as a whole; ``output`` as a value is the result.

4: the test of an inline ``if`` that is a name without a value is false; code that tests the result of SQL for a list is refused.

5: SQL that doubles quotes of a value by hand is refused; ``retry`` without ``when`` makes no further call for a credential that is missing or
does not fit.

6: the budget counts calls of a run that continues or is timed out, calls of entries of ``case``, and those of items as they were made; a task
that begins again in its list is held against it; nothing is added to ``ctx.cost`` that is less than nothing.

7: code that reads ``results`` or ``stats`` of the list that is a loop's result is refused.

8: a ``result`` for a call in a loop is the result of its item; it was that of the whole loop, and the highest index won. A task whose
input is the result of a step without a tool is refused, and one of ``postgres`` without ``auth`` whose input names a database;
``data``, ``success`` and ``max_attempts`` are names in the guards of a ``retry`` alone.

9: code that reads ``data`` of the result of SQL, or compares ``status`` of an HTTP answer with a word, is refused.

10: code that counts the result of SQL, or reads rows of it without ``rows``, is refused, and code that takes the result of a shell command for
a text, what a command of SQL gave for its rows, a name ``ctx`` that it does not have, or a body
for the whole answer. ``workload``, ``ctx`` and ``vars`` are whole as
parameters of ``main`` and in ``context``.

11: code that reads an entry of ``ctx`` that only the workload has is refused, and code that doubles quotes of a value that SQL binds. Code
that uses ``context`` as a whole, or by a computed name, finds every name of the playbook.
"""


def program_hash(text: str | bytes, semantics: int = SEMANTICS) -> str:
    """Return the identity of what ``text`` compiles to: SHA-256 in hex."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    head = f"{PROGRAM_VERSION}.{_COMPILERS[semantics]}.{semantics}\n".encode()
    return hashlib.sha256(head + raw).hexdigest()


def semantics_of(text: str | bytes, program: str) -> int:
    """Return the meaning with which ``text`` was compiled to the hash ``program``.

    It is the newest for any other hash.
    """
    return next((known for known in _COMPILERS if program_hash(text, known) == program), SEMANTICS)
