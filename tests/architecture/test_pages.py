"""What every page of documentation keeps to: length, links, paths that exist, words."""

import re
from collections.abc import Callable, Collection
from pathlib import Path

from source import PACKAGE, ROOT

DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        ROOT / "events" / "README.md",
        *DOCS.rglob("*.md"),
        *(ROOT / "playbooks").rglob("README.md"),
    ]
)
WRITTEN = [page for page in PAGES if page.name != "CHANGELOG.md"]
MOST_LINES, MOST_COLUMNS = 400, 120
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`]+`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
TOP_FOLDERS = {folder.name for root in (ROOT, PACKAGE) for folder in root.iterdir() if folder.is_dir()} - {
    "build"
}
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)+/?")
MODULE = re.compile(r"(?:noetl|infra|tests)(?:\.\w+)+")


def _id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _text(page: Path) -> str:
    """Return the page without code blocks, in which brackets and words mean something else."""
    return FENCE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text("utf-8"))


def _anchors(page: Path) -> set[str]:
    """Return headings as links spell them, and anchors that the page names itself."""
    titles = re.findall(r"^#+ (.+)$", _text(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)
    return {*plain, *re.findall(r'<a id="([^"]+)">', _text(page))}


def _have_none(pages: Collection[Path], problems: Callable[[Path], list[str]], hint: str = "") -> None:
    """Fail with a line for each problem of a page."""
    assert len(pages) > 200, "pages are looked for in the wrong place"
    found = [f"{_id(page)}: {problem}" for page in pages for problem in problems(page)]
    assert not found, "\n".join([hint, *found])


def test_links_lead_somewhere() -> None:
    _have_none(PAGES, _lost_links)


def _lost_links(page: Path) -> list[str]:
    lost = []
    for target, anchor in LINK.findall(_text(page)):
        other = page.parent / target if target else page
        if re.match(r"[a-z]+:", target):
            continue
        if not other.exists() or (anchor and other.suffix == ".md" and anchor not in _anchors(other)):
            lost.append(f"{target}#{anchor}")
    return lost


def test_a_page_is_short_and_its_prose_is_wrapped() -> None:
    _have_none(WRITTEN, _out_of_bounds)


def _out_of_bounds(page: Path) -> list[str]:
    lines = _text(page).splitlines()
    wide = [
        f"{number}: wrap it at {MOST_COLUMNS} columns"
        for number, line in enumerate(lines, 1)
        if len(line) > MOST_COLUMNS and not _is_one_unit(line)
    ]
    return [*wide, *([f"more than {MOST_LINES} lines"] if len(lines) > MOST_LINES else [])]


def _is_one_unit(line: str) -> bool:
    """Tell whether a line cannot be wrapped: a row of a table, a heading, or one long code span."""
    return bool(re.match(r" *[|#]", line)) or len(SPAN.sub("", line)) < MOST_COLUMNS // 4


def test_paths_and_modules_that_a_page_names_exist() -> None:
    _have_none(WRITTEN, _missing_names)


def _missing_names(page: Path) -> list[str]:
    text = _text(page)
    if page.parent.name == "specification":
        # The last column names cases and tests by their own folders; tests/conformance/test_specification.py looks for those.
        text = re.sub(r"\|[^|\n]*\|$", "|", text, flags=re.MULTILINE)
    spans = [span.strip("`") for span in SPAN.findall(text)]
    return [name for name in spans if not _exists(name)]


def _exists(name: str) -> bool:
    """Tell whether a span is no path of this repository, or one that is there. A path may end in a name of its module."""
    if MODULE.fullmatch(name) and name.split(".")[1] in TOP_FOLDERS:
        return _has_module(name)
    path, _, attribute = name.partition("::")
    if not PATH.fullmatch(path) or path.split("/", 1)[0] not in TOP_FOLDERS:
        return True
    if any(any(root.glob(path.rstrip("/"))) for root in (ROOT, PACKAGE)):
        return True
    found = [file for root in (ROOT, PACKAGE) if (file := root / f"{path}.py").is_file()]
    if not found and "." in path.rsplit("/", 1)[1]:
        path, attribute = path.rsplit(".", 1)
        found = [file for root in (ROOT, PACKAGE) if (file := root / f"{path}.py").is_file()]
    return bool(found) and (not attribute or any(attribute in file.read_text("utf-8") for file in found))


def _has_module(name: str) -> bool:
    """Tell whether a module exists, with or without a name of it behind the last dot."""
    parts = name.split(".")
    for length in (len(parts), len(parts) - 1):
        base = (PACKAGE.parent if parts[0] == "noetl" else ROOT).joinpath(*parts[:length])
        file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if base.is_dir() and length == len(parts):
            return True
        if file.is_file():
            return length == len(parts) or parts[-1] in file.read_text("utf-8")
    return False


BANNED_TABLE = re.compile(r"<!-- banned -->\n(.*?)<!-- /banned -->", re.DOTALL)
BANNED = [
    phrase.strip()
    for row in re.findall(
        r"^\| ([^|]+) \|",
        BANNED_TABLE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))[0],
        re.MULTILINE,
    )[1:]
    for phrase in row.split(",")
]


def test_the_table_of_words_is_read() -> None:
    assert {"nobody", "goes on", "what came of", "gives"} <= set(BANNED) and len(BANNED) < 40


def test_a_page_has_none_of_the_banned_words() -> None:
    _have_none(WRITTEN, _banned_words, "CONTRIBUTING.md says what to write instead")


def _banned_words(page: Path) -> list[str]:
    prose = SPAN.sub("", BANNED_TABLE.sub("", _text(page)))
    prose = LINK.sub("]", prose)
    pattern = re.compile(
        r"\b(?:" + "|".join(phrase.replace(" ", r"\s+") for phrase in BANNED) + r")\b", re.IGNORECASE
    )
    return [f"{prose.count(chr(10), 0, one.start()) + 1}: {one[0]}" for one in pattern.finditer(prose)]


def _linked(page: Path) -> set[Path]:
    return {
        (page.parent / target).resolve() for target, _ in LINK.findall(_text(page)) if target.endswith(".md")
    }


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """The front page links to it, or an index page of the front page whose folder it is in (docs/site/build.py)."""
    front = DOCS / "README.md"
    shown = _linked(front)
    for index in sorted(shown):
        folder = index.parent if index.name == "README.md" else index.with_suffix("")
        shown |= {page for page in _linked(index) if page.parent == folder}
    assert sorted(_id(page) for page in DOCS.rglob("*.md") if page not in shown | {front}) == []


def test_the_index_of_decisions_has_every_record_with_title_and_status() -> None:
    folder = DOCS / "adr"
    rows = re.findall(
        r"^\| (?:\[(\d+)\]\((.+?)\)|(\d+)) \| (.+) \| (.+) \|$",
        (folder / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    numbers = [int(number or unused) for number, _, unused, _, _ in rows]
    assert numbers == sorted(set(numbers)), "in order, and each number once"
    records = {file.name for file in folder.glob("[0-9]*.md")}
    assert {file for _, file, _, _, _ in rows if file} == records
    for number, file, _, title, status in rows:
        text = (folder / file).read_text("utf-8") if file else ""
        assert not file or text.startswith(f"# {int(number)}. {title}\n\nStatus: {status}\n")


def test_pages_that_the_code_names_exist() -> None:
    """Docstrings and hints lead to pages, sections and numbers of decisions."""
    lost = []
    for folder in (PACKAGE, ROOT / "infra", ROOT / "functions"):
        for file in folder.rglob("*.py"):
            if "node_modules" in file.parts:
                continue
            for page, anchor in re.findall(
                r"\b(docs/[\w./-]+?(?:\.md|/\d{4}))(?:#([\w-]+))?\b", file.read_text("utf-8")
            ):
                found = next(iter(ROOT.glob(f"{page}*" if page[-1].isdigit() else page)), None)
                if found is None or (anchor and anchor not in _anchors(found)):
                    lost.append(f"{_id(file)}: {page}#{anchor}")
    assert not lost
