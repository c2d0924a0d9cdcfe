"""Whether Python code can leave something behind for the next call in its process.

Where it cannot, executions may share the process, and nothing of one is visible to another. That is shown from the text: code that uses only
what is listed here reaches no object that a later call reaches, too. Everything that is not listed counts as able to keep something.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator
from functools import lru_cache
from textwrap import dedent, shorten
from typing import NamedTuple

from noetl.kinds.sandbox.noetl_guest.usercode import FILENAME, compile_code
from noetl.kinds.sandbox.request import MOST_CHARACTERS, MOST_COMPILED

_SYNTAX = frozenset(
    (
        *(ast.Module, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Assert),
        *(ast.Delete, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.Global, ast.Nonlocal),
        *(ast.If, ast.For, ast.While, ast.Try, ast.ExceptHandler, ast.Import, ast.ImportFrom, ast.alias),
        *(ast.FunctionDef, ast.Lambda, ast.arguments, ast.arg, ast.Yield, ast.Call, ast.keyword),
        *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Constant, ast.Name, ast.Attribute),
        *(ast.Dict, ast.Set, ast.List, ast.Tuple, ast.Starred, ast.Subscript, ast.Slice),
        *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension),
        *(ast.JoinedStr, ast.FormattedValue),
        *(ast.Match, ast.match_case, ast.MatchValue, ast.MatchSingleton, ast.MatchSequence, ast.MatchMapping),
        *(ast.MatchStar, ast.MatchAs, ast.MatchOr),
    )
)
"""Not classes, whose ``__del__`` runs in a later call; nor ``with`` and ``async``, which call methods that no text names; nor ``yield from``,
whose end has something to do."""


def _words(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


_BUILTINS = _words(
    "abs all any ascii bin bool bytearray bytes chr complex dict divmod enumerate filter float format frozenset hex int",
    "isinstance issubclass iter len list map max min next oct ord pow print range repr reversed round set slice sorted",
    "str sum tuple zip NotImplemented Ellipsis Exception ArithmeticError AssertionError AttributeError ConnectionError",
    "FileNotFoundError FloatingPointError IndexError KeyError LookupError NameError NotImplementedError OSError",
    "OverflowError PermissionError RecursionError RuntimeError StopIteration TimeoutError TypeError UnicodeDecodeError",
    "UnicodeEncodeError UnicodeError UserWarning ValueError Warning ZeroDivisionError __name__",
)
"""Not ``type``, which makes classes; nor what reads attributes by their names, or shows where objects are in memory."""
_OTHER_BUILTINS = frozenset(dir(builtins)) - _BUILTINS

MODULES = {
    "__future__": "annotations",
    "base64": "b64decode b64encode urlsafe_b64decode urlsafe_b64encode b32encode b32decode b16encode b16decode",
    "binascii": "hexlify unhexlify crc32",
    "collections": "Counter OrderedDict defaultdict deque",
    "copy": "copy deepcopy",
    "csv": "reader writer DictReader DictWriter QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC",
    "datetime": "datetime date time timedelta timezone UTC MINYEAR MAXYEAR",
    "decimal": "Decimal InvalidOperation ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP"
    " ROUND_UP ROUND_05UP",
    "functools": "cmp_to_key partial reduce",
    "hashlib": "blake2b blake2s md5 sha1 sha224 sha256 sha384 sha512 sha3_256 sha3_512",
    "hmac": "new compare_digest digest",
    "html": "escape unescape",
    "io": "BytesIO StringIO",
    "itertools": "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile filterfalse"
    " groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest",
    "json": "JSONDecodeError dumps loads",
    "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp exp2 expm1"
    " fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10"
    " log1p log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt tan tanh tau trunc ulp",
    "operator": "add itemgetter mul sub truediv",
    "re": "A ASCII DOTALL I IGNORECASE M MULTILINE S VERBOSE X compile escape findall finditer fullmatch match search"
    " split sub subn",
    "statistics": "StatisticsError fmean geometric_mean harmonic_mean mean median median_high median_low mode multimode"
    " pstdev pvariance quantiles stdev variance",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits printable punctuation whitespace",
    "textwrap": "dedent fill indent shorten wrap",
    "time": "gmtime localtime monotonic perf_counter sleep strftime strptime time time_ns",
    "typing": "Any Dict List Optional Set Tuple Union",
    "unicodedata": "category name normalize",
    "urllib.parse": "parse_qs parse_qsl quote quote_plus unquote unquote_plus urlencode urljoin urlparse urlsplit urlunparse"
    " urlunsplit",
    "uuid": "UUID uuid3 uuid4 uuid5 NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL",
}
"""Names of modules that change nothing which another call sees, and lead to nothing that can be changed."""
_OF_MODULES = {module: _words(names) for module, names in MODULES.items()}

TYPES = _words("bool bytes complex dict float frozenset int list set str tuple")
"""Builtins that types of ``typing`` are made of."""

_FLAGS = _words("A ASCII DOTALL I IGNORECASE M MULTILINE S VERBOSE X")
_PATTERNS = {
    "compile": 1,
    **dict.fromkeys(("findall", "finditer", "fullmatch", "match", "search"), 2),
    "split": 3,
    **dict.fromkeys(("sub", "subn"), 4),
}
"""Functions that keep patterns → the place of their flags.

``re.compile(text, 0.0)`` succeeds if another call compiled the text.
"""
_CALLED = {
    ("collections", "Counter"),
    ("csv", "DictReader"),
    ("csv", "DictWriter"),
    ("uuid", "UUID"),
    *(("re", name) for name in _PATTERNS),
}
"""What may be called where it is named, and is no value: methods of a class that is written in Python take any object.

``Counter.copy(int)`` is ``int.__class__(int)``, which is ``type``.
"""

_DATA = (str, bytes, bytearray, list, dict, set, frozenset, tuple, int, float, complex, range)
_FORMATS = {"format", "format_map"}
"""Their text reads attributes: ``"{0.__class__}"``."""
OBJECTS = {
    "collections": "appendleft default_factory elements extendleft maxlen most_common move_to_end popleft rotate subtract",
    "csv": "fieldnames line_num writeheader writerow writerows",
    "datetime": "astimezone combine ctime date day days dst fold fromisocalendar fromisoformat fromordinal fromtimestamp hour"
    " isocalendar isoformat isoweekday max microsecond microseconds min minute month now resolution second seconds strftime"
    " strptime time timestamp timetuple timetz today toordinal total_seconds tzinfo tzname utc utcfromtimestamp utcnow"
    " utcoffset weekday year",
    "decimal": "as_integer_ratio as_tuple is_finite is_infinite is_nan is_signed is_zero normalize quantize sqrt"
    " to_integral_value",
    "exceptions": "args colno doc lineno msg pos",
    "hashlib": "block_size digest digest_size hexdigest",
    "io": "close getvalue read readline readlines seek tell truncate write writelines",
    "re": "endpos expand group groupdict groupindex groups lastgroup lastindex pattern pos regs span string start end",
    "time": "tm_hour tm_mday tm_min tm_mon tm_sec tm_wday tm_yday tm_year",
    "urllib.parse": "fragment geturl hostname netloc params password path port query scheme username",
    "uuid": "bytes hex int version",
}
"""Attributes of what these modules make."""
SHOWN = 60
"""Characters of the code that a message shows."""
ATTRIBUTES = (
    _words(*OBJECTS.values(), *MODULES.values())
    | {name for kind in _DATA for name in dir(kind) if not name.startswith("_")}
) - _FORMATS


class Kept(NamedTuple):
    """Why code may keep something: the words for it, and the place in the code, 1-based."""

    words: str
    line: int = 1
    column: int = 1


class _Doubts(NamedTuple):
    """Nodes that may keep something, and their text.

    That is the code, maybe without its indentation.
    """

    nodes: list[ast.AST]
    text: str


@lru_cache(MOST_COMPILED)
def keeps_nothing(code: str) -> bool:
    """Return whether no later call in the same process can see that this code ran.

    False: it may be visible, or it is not known. What a module of the playbook does is not looked at, and values of the task are not named
    like one of ``TYPES``.
    """
    return _doubts(code) is None


def find_kept(code: str) -> Kept | None:
    """Find the first place where code may keep something for a later call.

    None: it keeps nothing.
    """
    doubts = _doubts(code)
    return _first(*doubts, code) if isinstance(doubts, _Doubts) else doubts


def _doubts(code: str) -> Kept | _Doubts | None:
    """Return why code may keep something; None: it keeps nothing."""
    if len(code) > MOST_CHARACTERS:
        return Kept(f"it is longer than {MOST_CHARACTERS:,} characters")
    try:
        tree, text = _parse(code)
        nodes = list(ast.walk(tree))
        found = [node for node in nodes if not _is_plain(node)] or _end_later(nodes) or _foreign(nodes, text)
        found = found or _Uses(nodes).out_of_place()
        if found:
            return _Doubts(found, text)
        # A warning, which is an error here, is shown by the process that compiles the code.
        compile_code(code, ())
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        words = getattr(error, "msg", None) or str(error) or "it is too deeply nested"
        return Kept(
            f"Python does not compile it without a word ({words})", getattr(error, "lineno", None) or 1
        )
    return None


def _first(nodes: list[ast.AST], text: str, code: str) -> Kept:
    """Show the node that is written first, and its place in ``code``.

    It is not shown as it is written: Python before 3.12 has wrong places for what is in an f-string.
    """
    (line, start), node = min(((_place(node), node) for node in nodes), key=lambda one: one[0])
    rest, whole = (_line(of, line) for of in (text, code))
    rest = rest.encode("utf-8", "replace")[start:].decode("utf-8", "replace")
    try:
        first = ast.unparse(node).strip().partition("\n")[0]
    except RecursionError:
        first = rest
    column = len(whole) - len(rest) if rest and whole.endswith(rest) else 0
    return Kept(f"`{shorten(first, SHOWN, placeholder=' …')}`", line, column + 1)


def _line(text: str, number: int) -> str:
    """Return a line as the parser counts them."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[number - 1] if number <= len(lines) else ""


def _place(node: ast.AST) -> tuple[int, int]:
    """Return the line of a node, and the bytes before it in the line.

    A node without a place has that of the first one in it.
    """
    for one in ast.walk(node):
        line, column = getattr(one, "lineno", None), getattr(one, "col_offset", None)
        if isinstance(line, int) and isinstance(column, int):
            return line, column
    return 1, 0


def _parse(code: str) -> tuple[ast.Module, str]:
    """Return the tree, and the text that it is of."""
    try:
        return ast.parse(code, FILENAME), code
    except IndentationError:
        text = dedent(code)
        return ast.parse(text, FILENAME), text


def _is_plain(node: ast.AST) -> bool:
    match node:
        case ast.Attribute():
            return node.attr in ATTRIBUTES and isinstance(node.ctx, ast.Load)
        case ast.FunctionDef():
            return not node.decorator_list
        case ast.comprehension():
            return not node.is_async
        case ast.Import():
            return all(name.name in _OF_MODULES for name in node.names)
        case ast.ImportFrom():
            names = _OF_MODULES.get(node.module or "", frozenset())
            return not node.level and all(name.name in names for name in node.names)
        case ast.Compare():
            return _compares_values(node)
    return type(node) in _SYNTAX or isinstance(
        node, (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    )


def _compares_values(node: ast.Compare) -> bool:
    """Return whether no two objects are compared for being one.

    That would show whether another call made a text known to the interpreter.
    """
    return all(
        not isinstance(operator, (ast.Is, ast.IsNot))
        or any(isinstance(side, ast.Constant) and not isinstance(side.value, (str, bytes)) for side in pair)
        for operator, *pair in zip(node.ops, (node.left, *node.comparators), node.comparators, strict=False)
    )


def _end_later(nodes: list[ast.AST]) -> list[ast.AST]:
    """List what makes a generator that may run code when it is removed, maybe in a later call."""
    tries = any(isinstance(node, ast.Try) for node in nodes)
    return [node for node in nodes if isinstance(node, ast.Yield)] if tries else []


class _Uses:
    """Where names of modules, and of what is in them, stand in the code."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self._nodes = nodes
        self._modules: dict[str, set[str]] = {}
        """Name → modules that it may be."""
        self._members: dict[str, set[tuple[str, str]]] = {}
        """Name → (module, name in it) that it may be."""
        self._bound = {
            node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        self._places: set[int] = set()
        """Nodes that stand where they may."""

    def out_of_place(self) -> list[ast.AST]:
        """List what is a value and may not be one."""
        for node in self._nodes:
            self._note_imports(node)
        for node in self._nodes:
            self._note_places(node)
        return [node for node in self._nodes if not self._is_in_place(node)]

    def _note_imports(self, node: ast.AST) -> None:
        match node:
            case ast.Import():
                for name in node.names:
                    bound = name.asname or name.name.partition(".")[0]
                    self._modules.setdefault(bound, set()).add(name.name)
            case ast.ImportFrom():
                for name in node.names:
                    known = self._members.setdefault(name.asname or name.name, set())
                    known.add((node.module or "", name.name))
            case ast.FunctionDef() | ast.MatchAs() | ast.MatchStar() | ast.ExceptHandler() if node.name:
                self._bound.add(node.name)
            case ast.arg():
                self._bound.add(node.arg)
            case ast.MatchMapping() if node.rest:
                self._bound.add(node.rest)

    def _note_places(self, node: ast.AST) -> None:
        match node:
            case ast.Attribute(value=ast.Name(id=name)) if (
                name in self._modules and name not in self._members
            ):
                self._places.add(id(node.value))
            case ast.Call():
                self._note_call(node)
            case ast.arg() | ast.AnnAssign() if node.annotation is not None:
                self._note_annotation(node.annotation)
            case ast.FunctionDef() if node.returns is not None:
                self._note_annotation(node.returns)

    def _note_annotation(self, node: ast.expr) -> None:
        self._places.add(id(node))
        if isinstance(node, (ast.BinOp, ast.Subscript)):
            self._note_type(node)

    def _note_type(self, node: ast.expr) -> None:
        """Note what an annotation is made of.

        A builtin type of others is a new object each time. ``typing`` keeps what it makes, and ``|`` beside one of its types makes another.
        """
        match node:
            case ast.BinOp(op=ast.BitOr()):
                for side in (node.left, node.right):
                    if not self._is_of_typing(side):
                        self._note_type(side)
            case ast.Subscript() if self._is_typing(node.value):
                if self._is_type(node.slice):
                    self._places.add(id(node.value))
            case ast.Subscript() if self._is_builtin_type(node.value):
                for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
                    self._note_type(part)
            case _:
                before = set(self._places)
                if not self._is_type(node):
                    self._places = before

    def _is_of_typing(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Subscript):
            node = node.value
        return self._is_typing(node)

    def _is_builtin_type(self, node: ast.expr) -> bool:
        bound = {*self._bound, *self._members, *self._modules}
        return isinstance(node, ast.Name) and node.id in TYPES and node.id not in bound

    def _note_call(self, node: ast.Call) -> None:
        used = self._used(node.func)
        if not any(one[0] == "typing" for one in used) and all(
            one[0] != "re" or one[1] not in _PATTERNS or self._is_pattern(one[1], node) for one in used
        ):
            self._places.add(id(node.func))

    def _used(self, node: ast.AST) -> set[tuple[str, str]]:
        """Return what of modules an expression may be."""
        match node:
            case ast.Name():
                return self._members.get(node.id, set())
            case ast.Attribute(value=ast.Name(id=name)):
                return {(module, node.attr) for module in self._modules.get(name, ())}
        return set()

    def _is_typing(self, node: ast.AST) -> bool:
        return any(module == "typing" for module, _ in self._used(node))

    def _is_type(self, node: ast.expr) -> bool:
        """Return whether a type is made of types that equal no other.

        ``typing`` keeps what it made: ``list[1]`` is equal to ``list[True]``, and ``int | str`` to ``str | int``.
        """
        match node:
            case ast.Constant():
                return node.value is None or node.value is ...
            case ast.Tuple():
                return all(map(self._is_type, node.elts))
            case ast.Subscript():
                return self._is_type(node.value) and self._is_type(node.slice)
            case ast.Name() if node.id in TYPES:
                return self._is_builtin_type(node)
        unions = {("typing", "Optional"), ("typing", "Union")} & self._used(node)
        if unions or not self._is_typing(node) or (isinstance(node, ast.Name) and node.id in self._bound):
            return False
        self._places.add(id(node))
        return True

    def _is_pattern(self, function: str, node: ast.Call) -> bool:
        """Return whether the flags of a pattern, if any, are written in the call."""
        if any(isinstance(given, ast.Starred) for given in node.args):
            return False
        flags = node.args[_PATTERNS[function] : _PATTERNS[function] + 1]
        flags += [given.value for given in node.keywords if given.arg == "flags"]
        named = all(given.arg is not None for given in node.keywords)
        return named and all(map(self._is_flags, flags))

    def _is_flags(self, node: ast.expr) -> bool:
        match node:
            case ast.BinOp(op=ast.BitOr()):
                return self._is_flags(node.left) and self._is_flags(node.right)
            case ast.Attribute():
                return self._used(node) == {("re", node.attr)} and node.attr in _FLAGS
        return False

    def _is_in_place(self, node: ast.AST) -> bool:
        match node:
            case ast.Import() | ast.ImportFrom():
                return all((name.asname or name.name) != "main" for name in node.names)
            case ast.AugAssign(target=ast.Name(id=name)):
                return name not in self._modules and name not in self._members
            case ast.Name(ctx=ast.Load()) if node.id in self._modules:
                return id(node) in self._places
        used = self._used(node)
        if isinstance(node, ast.Attribute) and any(name not in _OF_MODULES[module] for module, name in used):
            return False
        restricted = any(one in _CALLED or one[0] == "typing" for one in used)
        loaded = isinstance(getattr(node, "ctx", None), ast.Load)
        return not (restricted and loaded) or id(node) in self._places


def _foreign(nodes: list[ast.AST], text: str) -> list[ast.AST]:
    """List nodes with foreign names: the whole module if no node has the name."""
    tables = [symtable.symtable(text, FILENAME, "exec")]
    names: set[str] = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names.update(filter(_is_foreign, _global_names(table)))
    names.update(filter(_is_foreign, _annotation_names(nodes)))
    if not names:
        return []
    return [node for node in nodes if not names.isdisjoint(_names_of(node))] or nodes[:1]


def _names_of(node: ast.AST) -> Iterator[str]:
    for field in ("id", "name", "asname", "arg", "rest"):
        name = getattr(node, field, None)
        if isinstance(name, str):
            yield name
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names


def _annotation_names(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield all names in annotations, whose scopes a table of symbols may leave out."""
    for node in nodes:
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for inner in ast.walk(annotation) if annotation is not None else ():
                if isinstance(inner, ast.Name):
                    yield inner.id


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield names of a scope that are the module's or Python's, or begin with two underscores."""
    for symbol in table.get_symbols():
        name = symbol.get_name()
        if table.get_type() == "module" or symbol.is_global() or name.startswith("__"):
            yield name


def _is_foreign(name: str) -> bool:
    return name in _OTHER_BUILTINS or (name.startswith("__") and name not in _BUILTINS)
