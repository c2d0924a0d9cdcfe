"""Build the documentation site: `make docs` runs this with the generator's own Python.

The pages link to each other across the repository, so they are copied with their folders below ``build/docs/source``. Navigation
follows the links of docs/README.md and of the index pages that it leads to. The finished site loads nothing from the network.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAGE = ROOT / "build" / "docs"
SOURCE = STAGE / "source"
CONFIG = Path(__file__).with_name("zensical.toml")
SITE = STAGE / "site"
SCRIPTS = {
    "mermaid.min.js": "mermaid/dist/mermaid.min.js",
    "iframe-worker.js": "iframe-worker/shim/index.js",
}
"""Name on the site → file of an npm package: what draws diagrams, and what lets search run on pages that are opened as files."""
SHIM_URL = "https://unpkg.com/iframe-worker/shim"
FRONT = Path("docs/README.md")
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "events/README.md", "playbooks/**/README.md")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)#\s:]+)\)")
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Return every page of the site, relative to the repository."""
    found = {page for pattern in ("docs/**/*.md", *OUTSIDE) for page in ROOT.glob(pattern)}
    return sorted(page.relative_to(ROOT) for page in found)


def links(page: Path) -> Iterator[tuple[str, Path]]:
    """Yield the text and the target, relative to the repository, of each link of a page to a file."""
    for text, target, _ in LINK.findall(FENCE.sub("", (ROOT / page).read_text("utf-8"))):
        if not re.match(r"[a-z]+:", target):
            yield text, (ROOT / page.parent / target).resolve().relative_to(ROOT)


def pictures(page: Path) -> Iterator[Path]:
    """Yield the files of the pictures that a page shows, relative to the repository."""
    for target in PICTURE.findall(FENCE.sub("", (ROOT / page).read_text("utf-8"))):
        yield (ROOT / page.parent / target).resolve().relative_to(ROOT)


def stage(packages: Path) -> None:
    """Copy pages, their pictures, the files that they link to, and scripts of npm packages."""
    shutil.rmtree(STAGE, ignore_errors=True)
    for page in pages():
        for file in (
            page,
            *(target for _, target in links(page) if (ROOT / target).is_file()),
            *pictures(page),
        ):
            (SOURCE / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, SOURCE / file)
        if "```mermaid" in (text := (SOURCE / page).read_text("utf-8")):
            script = f'<script src="{up(page)}assets/mermaid.min.js"></script>'
            (SOURCE / page).write_text(f"{text}\n{script}\n", "utf-8")
    (SOURCE / "assets").mkdir()
    for name, file in SCRIPTS.items():
        shutil.copyfile(packages / file, SOURCE / "assets" / name)


def up(page: Path) -> str:
    """Return the relative path from a page to the root of the site."""
    return "../" * (len(page.parts) - 1)


def title(page: Path) -> str:
    """Return the first heading of a page without its markup."""
    found = re.search(r"^# (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    return found[1].replace("`", "") if found else page.stem


def navigation() -> list[object]:
    """Return the sections and groups of the front page; the pages of an index page's own folder are below it."""
    sections: list[object] = [{"Home": "README.md"}, {"All pages": str(FRONT)}]
    seen = {FRONT, Path("README.md")}
    for section in (ROOT / FRONT).read_text("utf-8").split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        first, *groups = re.split(r"^\*\*(.+)\*\*$", text, flags=re.MULTILINE)
        entries = _entries(first, seen)
        for group, listed in zip(groups[::2], groups[1::2], strict=True):
            entries.append({group: _entries(listed, seen)})
        sections.append({name: entries})
    return sections


def _entries(text: str, seen: set[Path]) -> list[object]:
    """Return the pages that a text of the front page links to, without those that an earlier one has."""
    entries: list[object] = []
    for _, link, _ in LINK.findall(text):
        target = (ROOT / FRONT.parent / link).resolve().relative_to(ROOT)
        if target in seen or target.suffix != ".md":
            continue
        seen.add(target)
        below = [child for child in _folder_of(target) if child not in seen]
        seen.update(below)
        pages_below: list[object] = [str(target), *({title(one): str(one)} for one in below)]
        entries.append({title(target): pages_below if below else str(target)})
    return entries


def _folder_of(page: Path) -> list[Path]:
    """Return the pages that an index page links to in the folder of its name, or for a README in its own folder."""
    folder = page.parent if page.name == "README.md" else page.with_suffix("")
    return [
        target
        for _, target in links(page)
        if target.parent == folder and target.suffix == ".md" and target != page
    ]


def toml(value: object) -> str:
    """Return strings, lists and tables as one line of TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def make_local() -> None:
    """Let every page load its scripts from the site itself. Raises SystemExit when a page loads one from the network."""
    for page in SITE.rglob("*.html"):
        root = up(page.relative_to(SITE)) if page.name != "404.html" else "/"
        html = page.read_text("utf-8").replace(SHIM_URL, f"{root}assets/iframe-worker.js")
        if found := re.search(
            r'<(?:script|img|iframe)[^>]*\ssrc="?https?:[^">]+|<link[^>]*\srel="?(?:stylesheet|preconnect)[^>]*https?:',
            html,
        ):
            raise SystemExit(f"{page.relative_to(SITE)} loads from the network: {found[0]}")
        page.write_text(html, "utf-8")


def main(packages: str) -> int:
    """Stage the pages, run the generator in its strict mode, and make the site independent of the network."""
    stage(Path(packages))
    head, rest = CONFIG.read_text("utf-8").split("[project]\n", 1)
    (STAGE / "zensical.toml").write_text(f"{head}[project]\nnav = {toml(navigation())}\n{rest}", "utf-8")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    if code := subprocess.run(command, cwd=STAGE, check=False).returncode:
        return code
    make_local()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
