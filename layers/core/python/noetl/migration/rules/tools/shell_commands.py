"""``cmds`` of a shell tool, and templates in its commands."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from noetl.domain.text.braces import is_of_another_tool
from noetl.formatting.nodes import Entry, List, Map, Text, comments, map_of, plain
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_SET = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "IFS", "PWD", "OPTIND", "PPID", "LINENO"})
"""Variables that each shell has by itself."""
_TAKEN = _SET | {
    *("RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "UID", "EUID", "GROUPS", "OPTARG"),
    *("HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "SHELL", "SHLVL", "SHELLOPTS", "OLDPWD", "REPLY"),
    *("BASH", "BASHPID", "BASHOPTS", "BASH_SOURCE", "BASH_COMMAND", "BASH_LINENO", "BASH_VERSION"),
    *("DIRSTACK", "FUNCNAME", "PIPESTATUS", "LINES", "COLUMNS", "MAPFILE", "COPROC", "HISTCMD", "CDPATH"),
    *("ENV", "BASH_ENV", "BASH_XTRACEFD", "LD_PRELOAD", "LD_LIBRARY_PATH", "PS4", "TIMEFORMAT", "TMOUT"),
    *("GLOBIGNORE", "POSIXLY_CORRECT"),
}
"""Variables that a shell sets, or that change what it does: a value with such a name would be another one."""
_OF_PROGRAMS = re.compile(
    r"TZ|TERM|USER|LOGNAME|EDITOR|PAGER|LANGUAGE|DISPLAY|KUBECONFIG|(?:HTTPS?|ALL|NO)_PROXY"
    r"|(?:LC|AWS|GIT|DOCKER|NODE|NPM|SSL|CLOUDSDK|GOOGLE|HELM|NOETL)_\w+|PG[A-Z]+|PYTHON[A-Z]+"
)
"""Variables that programs read which a script runs."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_BASH = re.compile(
    r"^[ \t]*set [^\n#]*\bpipefail\b|\[\[ |<<<|&>>?|\|&|[<>]\([^)\n]|\$\{\w+(?:\[|/|\^|,|:\d|: -?\d)|\$\{!\w"
    r"|^[ \t]*(?:declare|typeset|mapfile|readarray|shopt|source|select|function) |\b\w+\+?=\(|^[ \t]*\(\(|\bfor \(\("
    r"|\{\d+\.\.\d+\}|\[ [^\]\n]{1,200} == |\bread -[a-z]*[pstn]|\becho -[neE]*e|\blocal -[aAin]|\$'\\",
    re.MULTILINE,
)
"""What ``sh`` need not know, or takes for something else."""
_GO = re.compile(r"\{\{\s{0,9}`([^`\n]*)`\s{0,9}\}\}")
"""A template of Go, protected from the templates of a playbook."""

_READS = re.compile(r"\$(?:([A-Za-z_]\w*|[1-9])|\{#?([A-Za-z_]\w*|[1-9]\d*)(?!\w|:?[-+=?])|\(\(([^()\n]*))")
"""A variable or argument that a script reads, without a word for where it is not set; or what it computes."""
_ASSIGNS = re.compile(
    r"""^(?:export )?([A-Za-z_]\w*)=(?:"[^"\n]*"|'[^'\n]*'|\$\([^\n]*\)|[^\s"'();&|]*)[ \t]*(?:[;#][^\n]*)?$""",
    re.MULTILINE,
)
"""A line that sets a variable of the script itself, and not of one command."""
_BRANCHES = re.compile(
    r"\b(?:if|case|for|while|until|select|function)\b|&&|\|\||\(\)|<<|^[ \t]*[({]", re.MULTILINE
)
"""What follows may be done or not, or is no command."""
_SEVERAL = re.compile(r"[\n;]")
_STOPS = re.compile(r"^[ \t]*set [^\n#]*(?:-\w*e|\berrexit\b)", re.MULTILINE)
"""A script that itself ends with its first failing line."""
_STRICT = re.compile(r"^[ \t]*set [^\n#]*(?:-\w*u|\bnounset\b)", re.MULTILINE)
"""A script that itself wants no unset variables."""
_HERE = re.compile(r"""(?<!<)<<-?[ \t]*((?:[^\s;&|<>()'"\\`]|\\[^\s]|'[^'\n]{0,99}'|"[^"\n]{0,99}")+)""")
_WITHOUT_QUOTES = str.maketrans("", "", "\\'\"")
_SUMS = re.compile(r"\$\(\((?:[^()\n]|\([^()\n]*\))*\)\)")
"""What a shell computes: quotes are no part of it in ``sh``."""
_ACTIVE = re.compile(r"""[$`"'\\{]""")
"""What a shell reads in a text in quotes; and templates."""
_BEFORE_WORD = " \t\n;&|()"
"""After one of these, ``#`` begins a comment."""


_ASSIGNED = re.compile(
    r"(?:(?<=&&)|(?<![\w$?&-]))([A-Za-z_]\w{0,99})(?:\[[^\]\n]{0,99}\])?(?:\+=|=(?:(['\"]?)(?=\{\{))?)"
)
"""A variable that is set; the second group is there where the value begins with a template."""
_SETS = re.compile(
    r"\b(?:for|select)[ \t]{1,9}(\w{1,99})|\b(?:read|readarray|mapfile|unset|getopts|printf[ \t]{1,9}-v)\b([^\n;|&]{0,300})"
    r"|\$\{(\w{1,99}):?=|\b(\w{1,99})(?:\+\+|--)|\(\(([^)\n]{0,300})"
)
_UNSURE = re.compile(
    r"\b(?:read|readarray|mapfile|getopts|coproc|eval|source|printf[ \t]{1,9}-v|exec[ \t]{1,9}\{|wait[ \t]{1,9}-)"
)
"""A line that may set a variable whose name is anywhere in it."""
_CASE = re.compile(r"\$\([ \t]{0,9}case\b")
_READ = re.compile(r"\$\{?[#!]?([A-Za-z_]\w{0,99})")
_ANY_TEMPLATE = re.compile(r"\{\{[^{}\n]*\}\}")
_COUNTS = re.compile(r"\{[\w-]{0,20}\.\.\{\{|(?<!\{)\{\{\{[^{}\n]{0,200}\}\}\.\.")
"""A template at an end of what braces count."""
_LITERAL = (
    "a template in a here document with a quoted end, where no variable is read",
    "hand the value over as a variable or an argument of the program that reads the document",
)
_WITHIN = (
    "a template in quotes of a command in a here document",
    "set a variable to the value before the document, and read it there",
)
_NAME = (
    "a template behind a $ makes the name of a variable",
    "write \\$ for a dollar sign, or read the variable by ${!NAME} of bash",
)
_IN_CASE = (
    "a template in a `case` within $( ) in quotes",
    "set a variable in the `case`, outside of the quotes, and read it there",
)
_RELATIVE = re.compile(r"""(?:^|[\s"'`=(;&|<>])(\.\.?/[^\s"'`;&|()<>]+)""")


def apply(page: Page) -> None:
    """Write one script; values reach it as variables, so that no value is run as code."""
    for tool in page.tools():
        if kind_of(tool) != "shell":
            continue
        for name in ("cmds", "commands", "cmd", "command"):
            entry = tool.entry(name)
            if entry is not None and (name == "command" or not tool.has("command")):
                _script(page, tool, entry)
                break


def _script(page: Page, tool: Map, entry: Entry) -> None:
    lines = _lines(entry)
    if lines is None:
        return
    if any("{%" in line for line in lines):
        page.refuse(
            entry,
            "a shell command is put together by a template",
            "write the branches as steps, or as shell code",
        )
        return
    if any(_COUNTS.search(line) for line in lines):
        page.refuse(
            entry,
            "a template counts in braces ({1..N}), where a shell takes no variable",
            "count with seq: for i in $(seq 1 {{ n }})",
        )
        return
    env = tool.entry("env")
    if env is not None and not isinstance(env.value, Map):
        return
    variables = env.value if env is not None and isinstance(env.value, Map) else Map([])
    named = _Variables(variables, "\n".join(lines))
    texts = {str(one.key) for one in map_of(page.root.get("workload")).entries if _is_plain(plain(one.value))}
    made = [_without_templates(line, named, texts) for line in lines]
    if named.refused:
        page.refuse(entry, *named.refused)
        return
    if made != lines:
        page.note(
            entry,
            "values are variables of the script now: each is one word, regardless of its content",
            safe=named.quoted,
        )
    if relative := _relative_path(lines):
        page.note(
            entry,
            f"{relative} is a path from the folder that the script begins in, which is an empty one of its own here: "
            "`noetl run FILE --task-folder .` lets it begin in yours",
            safe=True,
        )
    named_today, entry.key, entry.raw_key = entry.key == "command", "command", "command"
    known = {str(one.key) for one in variables.entries}
    script = "\n".join(lines)
    bash = _BASH.search(script) is not None and not tool.has("interpreter")
    if not named_today and _asks_for_unset(made, known):
        made = ["set +u", *made]
    if not named_today and bash and "pipefail" not in script:
        made = ["set +o pipefail", *made]
    if isinstance(entry.value, List):
        notes = [[one for one in comments(item) if one] for item in entry.value.entries]
        first = made[: len(made) - len(notes)]
        rows = [row for lead, one in zip(notes, made[len(first) :], strict=True) for row in (*lead, one)]
        entry.value = Text("\n".join([_end_of(lines), *first, *rows]) + "\n", style="|")
    elif len(made) > len(lines):
        entry.value = Text("\n".join(made).rstrip("\n") + "\n", style="|")
    elif made != [plain(entry.value)]:
        entry.value = Text(made[0], style="|" if "\n" in made[0] else "'")
    if bash:
        tool.entries.insert(
            tool.entries.index(entry), Entry("interpreter", Text("bash"), "interpreter", line=entry.line)
        )
    if variables.entries and env is None:
        tool.entries.insert(tool.entries.index(entry), Entry("env", variables, "env", line=entry.line))


def _end_of(lines: list[str]) -> str:
    """Return how a list of commands ends: with the first that fails.

    Older releases ran each of them by itself, so that of a script alone the last line counts.
    """
    if len(lines) > 1 or not _SEVERAL.search(lines[0].strip()) or _STOPS.search(lines[0]):
        return "set -e"
    return "set +e"


def _relative_path(lines: list[str]) -> str:
    """Return the first path that begins with ``./`` or ``../``; empty: there is none."""
    rows = (row for line in lines for row in line.splitlines() if not row.lstrip().startswith("#"))
    return next((found[1][:60] for row in rows if (found := _RELATIVE.search(row))), "")


def _asks_for_unset(lines: list[str], known: set[str]) -> bool:
    """Return whether a script may read a variable that is not set.

    Older releases let it. An assignment counts where it is always done, before the first time the name is read.
    """
    script = "\n".join(lines)
    if _STRICT.search(script):
        return False
    branch = _BRANCHES.search(script)
    surely = list(_ASSIGNS.finditer(script, 0, branch.start() if branch else len(script)))
    ends = {found[1]: found.end() for found in reversed(surely)}
    return any(
        name not in known and name not in _SET and ends.get(name, len(script)) > found.start()
        for found in _READS.finditer(script)
        for name in ([found[1] or found[2]] if found[3] is None else _WORD.findall(found[3]))
    )


def _lines(entry: Entry) -> list[str] | None:
    value = plain(entry.value)
    if isinstance(value, str):
        return [_GO.sub(r"\1", value)]
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        return [_GO.sub(r"\1", str(line)) for line in value]
    return None


def _is_plain(value: object) -> bool:
    """Return whether a value is the same in quotes and in a variable."""
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and not _ACTIVE.search(value))


def _without_templates(line: str, variables: _Variables, texts: set[str]) -> str:
    """Return a line that reads variables, quoted as their place demands."""
    out: list[str] = []
    quotes = _Quotes()
    place, last = 0, line.rfind("}}")
    sums = [found.span() for found in _SUMS.finditer(line)]
    documents = _documents(line)
    while place < len(line):
        if place in documents:
            end, literal = documents[place]
            out.append(_document(line[place:end], variables, literal=literal))
            place = end
            continue
        found = _template(line, place) if place < last else None
        if found is not None:
            start, (expression, place) = place, found
            name = variables.name_of(expression)
            quote = quotes.open
            variables.check(line, start, quote)
            if _slashes(line, start) % 2 and quote in ("", '"'):
                out[-1] = "\\\\" if quote else ""  # a text keeps it before such a character, a word does not
            variables.quoted &= bool(quote) and expression.removeprefix("workload.") in texts
            within = "" if quote else next(('"' for start, end in sums if start < place <= end), "")
            out.append(
                {
                    "'": f"'\"${{{name}}}\"'",
                    "$'": f"'\"${{{name}}}\"$'",
                    '"': f"${{{name}}}",
                    "": f'"${{{name}}}"',
                }[quote or within]
            )
            continue
        end = quotes.after(line, place)
        out.append(line[place:end])
        place = end
    return "".join(out)


@dataclass(slots=True)
class _Quotes:
    """Follow the quotes of a script, as the shell reads them."""

    inside: list[str] = field(default_factory=list)
    """The quotes, and the parentheses of commands in double quotes, that are open here."""
    comment: bool = False

    @property
    def open(self) -> str:
        """Return the quote that a value here is in; empty: none."""
        last = self.inside[-1] if self.inside else ""
        return "" if last in ("(", "`") or self.comment else last

    def after(self, line: str, place: int) -> int:
        """Take what is at a place; return where the next begins."""
        char, quote = line[place], self.open
        if self.comment:
            self.comment = char != "\n"
        elif char == "\\" and quote != "'":
            return place + (1 if line.startswith("{{", place + 1) else 2)
        elif char in "'\"" and quote in ("", char, f"${char}"):
            if quote:
                self.inside.pop()
            else:
                self.inside.append("$'" if char == "'" and place and line[place - 1] == "$" else char)
        elif char == "`" and ("`" in self.inside or quote == '"'):
            if "`" in self.inside:
                del self.inside[self.inside.index("`") :]
            else:
                self.inside.append(char)
        elif char == "#" and not quote:
            self.comment = not place or line[place - 1] in _BEFORE_WORD
        elif char == "(" and self.inside and (not quote or (quote == '"' and line[place - 1] == "$")):
            self.inside.append(char)
        elif char == ")" and self.inside and not quote:
            self.inside.pop()
        return place + 1


def _documents(line: str) -> dict[int, tuple[int, bool]]:
    """Return where each here document begins and ends; True: the shell puts nothing into it."""
    found: dict[int, tuple[int, bool]] = {}
    ends: dict[str, list[int]] = {}
    at = 0
    for row in line.splitlines(keepends=True):
        ends.setdefault(row.strip(), []).append(at)
        at += len(row)
    past = row_end = after = 0
    for head in _HERE.finditer(line):
        start = after if head.start() < row_end else line.find("\n", head.end()) + 1
        name = head[1].translate(_WITHOUT_QUOTES)
        rows = ends.get(name, [])
        place = bisect_left(rows, start)
        if row_end <= head.start() < past or not start or place == len(rows):
            continue
        if rows[place] > start:
            found[start] = rows[place], name != head[1]
        if head.start() >= row_end:
            row_end = start
        past, after = rows[place], line.find("\n", rows[place]) + 1 or len(line)
    return found


def _document(text: str, variables: _Variables, *, literal: bool) -> str:
    """Return a here document that reads variables; quotes are text in it."""
    out: list[str] = []
    place = 0
    while (start := text.find("{{", place)) >= 0:
        found = _template(text, start)
        out.append(text[place:start])
        if found is None:
            out.append("{{")
            place = start + 2
            continue
        expression, place = found
        variables.quoted = False
        if literal:
            variables.refused = _LITERAL
        elif _in_quotes(text[:start]):
            variables.refused = _WITHIN
        elif _slashes(text, start) % 2:
            out.append("\\")
        elif text[:start].endswith("$"):
            variables.refused = _NAME
        out.append(f"${{{variables.name_of(expression)}}}")
    return "".join([*out, text[place:]])


def _slashes(text: str, end: int) -> int:
    """Return how many backslashes are before a place."""
    return end - len(text[:end].rstrip("\\"))


def _in_quotes(text: str) -> bool:
    """Return whether a here document is within single quotes of a command after ``text``."""
    ticks = text.replace("\\`", "").split("`")
    command = text[text.rfind("$(") :] if text.rfind("$(") > text.rfind(")") else ""
    return (len(ticks) % 2 == 0 and ticks[-1].count("'") % 2 > 0) or command.count("'") % 2 > 0


def _template(line: str, start: int) -> tuple[str, int] | None:
    """Return the expression of the template that begins here, and where it ends.

    No pattern: several repetitions beside each other try every division of a long run of spaces.
    """
    if not line.startswith("{{", start):
        return None
    end = line.find("}}", start + 2)
    if end < 0:
        return None
    expression = line[start + 2 : end].removeprefix("-").removesuffix("-").strip()
    if "\n" in expression or is_of_another_tool(line[start : end + 2]):
        return None
    return expression, end + 2


@dataclass(slots=True)
class _Variables:
    """Find the variable of each template of a script; equal expressions share one."""

    entries: Map
    script: str
    by_template: dict[object, str] = field(init=False)
    taken: set[str] = field(init=False)
    own: set[str] = field(init=False)
    """Variables that the script itself sets, to anything but one template."""
    copies: dict[str, str] = field(init=False)
    """Variables that the script only sets to one template, with its expression."""
    counts: Counter[str] = field(default_factory=Counter)
    quoted: bool = True
    """Every template so far is in quotes, and has a plain text of the workload."""
    refused: tuple[str, str] | None = None
    """A template is where no variable has its place: what to say, and a hint."""

    def __post_init__(self) -> None:
        known = self.entries.entries
        self.own, self.copies, early = _set_in(self.script)
        self.own |= early - {str(entry.key) for entry in known}
        for row in self.script.replace("\\\n", " ").split("\n"):
            if _UNSURE.search(row):
                words = _WORD.findall(_ANY_TEMPLATE.sub(" ", row))
                self.own |= {*words, *(word[1:] for word in words)}  # also that of -vN
        self.by_template = {
            value: str(entry.key)
            for entry in reversed(known)
            if isinstance(value := plain(entry.value), str) and entry.key not in self.own
        }
        self.taken = {str(entry.key) for entry in known}

    def name_of(self, expression: str) -> str:
        """Return the name of the variable that holds an expression."""
        template = f"{{{{ {expression} }}}}"
        if template not in self.by_template:
            name = self._free(expression)
            self.taken.add(name)
            self.by_template[template] = name
            self.entries.entries.append(Entry(name, Text(template, style='"'), name))
        return self.by_template[template]

    def check(self, line: str, start: int, quote: str) -> None:
        """Refuse a template that is a part of a name, or whose quotes are not known."""
        if line[:start].endswith("$") and not quote.endswith("'") and _slashes(line, start - 1) % 2 == 0:
            self.refused = _NAME
        if not quote and _CASE.search(line, line.rfind("\n", 0, start) + 1, start):
            self.refused = _IN_CASE

    def _free(self, expression: str) -> str:
        words = _WORD.findall(expression.split("|")[0]) or ["value"]
        base = words[-1].upper()
        base = f"VALUE_{base}" if base in _TAKEN or _OF_PROGRAMS.fullmatch(base) else base
        while True:
            self.counts[base] += 1
            count = self.counts[base]
            name = base if count == 1 else f"{base}_{count}"
            if name not in self.taken | self.own and self.copies.get(name, expression) == expression:
                return name


def _set_in(script: str) -> tuple[set[str], dict[str, str], set[str]]:
    """Return the variables that a script sets itself, sets to one template, or reads first.

    Those of the second kind come with the expression. Those of the third are of its caller, or empty.
    """
    own = {
        name
        for found in _SETS.finditer(script)
        for name in _WORD.findall(next(filter(None, found.groups()), ""))
    }
    copies: dict[str, str] = {}
    begins: dict[str, int] = {}
    for found in _ASSIGNED.finditer(script):
        name, value = found[1], found[2]
        template = _template(script, found.end()) if value is not None else None
        after = script[template[1] : template[1] + 2] if template is not None else ""
        closed = template is not None and (after[:1] == value if value else True)
        rest = after[1:2] if value else after[:1]
        if (
            template is None
            or not closed
            or rest not in ("", " ", "\t", "\n", ";", "&", "|", ")")
            or copies.setdefault(name, template[0]) != template[0]
        ):
            own.add(name)
        begins.setdefault(name, found.start())
    early = {
        found[1] for found in _READ.finditer(script) if found.start() < begins.get(found[1], len(script))
    }
    return own, copies, early


RULE = Rule("shell-commands", "A shell tool has one script; values reach it by `env`.", apply)
