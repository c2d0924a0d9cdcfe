"""The generator of ``docs/limits.md``.

``make limits`` writes the page from the table of limits; a test compares the two.
"""

from __future__ import annotations

from noetl.domain.sizes.table import AREAS, KIB, MIB, SIZES, Size

_HEAD = """\
# Limits

Written by `make limits` from `domain/sizes/table.py`; do not edit it by hand. A value at its limit is accepted,
one above is refused. Only the limits whose row says so cut a value off instead.

- The API answers 422; 400 when a parameter, a header or a cursor exceeds its limit, and 413 or 431 when the body or the
  headers do. The problem has the code of the row, and the remedy as `hint`. `details` has `limit` (its name), `most`,
  `unit`, `place` (a JSON pointer into the document; empty: all of it) and, where the whole value was counted, `found`.
  Problems of a playbook have line and column instead.
- The command line prints the same problem, and ends with exit code 2. The compiler names `file:line:column`.
- When a task of an execution exceeds a limit, its step fails with the same code and the place in the playbook. Rules,
  arcs and parents see an ordinary error. An execution whose start exceeds a limit fails before its first step.

Any text is accepted as a key of a payload, of `ctx` and of `vars`, NUL and lone surrogates included. Names that authors
and operators choose (steps, schedules, credentials …) are plain text.
"""


def page() -> str:
    """Give the page as Markdown."""
    parts = [_HEAD]
    for area, title in AREAS.items():
        rows = [_row(size) for size in SIZES if size.area == area]
        parts.append(
            f"## {title}\n\n| limit | most | what it limits | refused by (code) |\n|---|---|---|---|\n"
            + "".join(rows)
        )
    return "\n".join(parts)


def _row(size: Size) -> str:
    setting = f" (`{size.setting}`)" if size.setting else ""
    return f"| `{size.name}` | {_most(size)}{setting} | {size.what} | {size.where} |\n"


def _most(size: Size) -> str:
    if size.unit == "bytes":
        for scale, word in ((MIB * KIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
            if size.value % scale == 0:
                return f"{size.value // scale} {word}"
    if size.unit == "seconds" and size.value % 86_400 == 0:
        return f"{size.value // 86_400} days"
    return f"{size.value:,}" if size.unit == "value" else f"{size.value:,} {size.unit}"
