"""Few bits tell few things apart: every place that cuts a hash, or takes a short one, says what a collision would do.

The ids of child executions once had 22 bits, and a parent of thousands waited for ever. Whoever adds such a place adds its row here: how many
bits, how many things share them, who may choose what is hashed, and what happens when two meet.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from source import PACKAGE, modules, name, tree

from tests.parts import over

SHORT = 16
"""Bytes from which on nobody has to think of collisions: 128 bits."""
DIGESTS = frozenset({"digest", "hexdigest"})
CHECKSUMS = frozenset({"crc32", "adler32", "hash", "md5", "sha1", "getrandbits", "randbits"})
RANDOM = frozenset({"token_hex", "token_bytes", "token_urlsafe", "random_bytes"})
"""Half as many bytes do where nobody can choose them."""
SQL = re.compile(r"\b(hashtext|hashtextextended|hash_\w+|md5|crc32c?)\s*\(", re.IGNORECASE)

ALLOWED = {
    (
        "adapters/aws/ecs_jobs.py",
        "EcsJobs._definition",
    ): "96 bits of a task definition: who meets another's on purpose tries 2**96 of them",
    (
        "adapters/aws/event_rules.py",
        "EventRules.rule",
    ): "48 bits beside the beginning of the name; whoever may make triggers may replace each by its name",
    ("adapters/aws/task_logs.py", "S3TaskLogs.append"): "48 bits beside the millisecond and the execution",
    (
        "adapters/disk/pools.py",
        "StreamChecksums.__init__",
    ): "64 bits that tell damage of a disk, and no identity: a block is compared with its own sum",
    ("adapters/disk/pools.py", "StreamChecksums.update"): "as above",
    ("adapters/disk/pools.py", "is_block"): "as above",
    (
        "adapters/embedded/docker.py",
        "DockerJobs.start",
    ): "96 bits of a job's token: who meets another's on purpose tries 2**96 of them",
    ("adapters/embedded/processes.py", "socket_folder"): "64 bits of a folder of this machine's own user",
    (
        "adapters/memory/views.py",
        "MemoryLooking.pulses",
    ): "32 bits of the list of executions: a page misses one hint until the next change",
    ("api/live/changes.py", "_digest"): "48 bits of a topic in its client's own cursor: as above",
    (
        "api/nouns/schedules.py",
        "backfill",
    ): "22 bits beside the millisecond of an execution; the store refuses an id that is taken, and the next one is asked for (ADR 38)",
    ("api/nouns/triggers.py", "_fire"): "as above",
    (
        "api/http/local_tokens.py",
        "write_private",
    ): "32 bits of a file that is made with O_EXCL and renamed at once",
    (
        "cli/client/local_triggers.py",
        "TriggersHere.fire_trigger",
    ): "22 bits beside the millisecond, as at the API",
    (
        "domain/ids.py",
        "_derived",
    ): "up to 30 bits, and an id that another execution has is derived again (ADR 38)",
    (
        "domain/messages.py",
        "event_group",
    ): "8 bits that choose the lane in which a message waits: many share one",
    (
        "domain/automations/schedules.py",
        "name_for",
    ): "32 bits beside the beginning of the path; a name that is another playbook's is refused (schedule_name_taken)",
    (
        "domain/capability_tokens.py",
        "_key_id",
    ): "32 bits that name one of two keys of an operator; a token is checked under the key itself",
    (
        "engine/scopes/prefetch.py",
        "_Hashed.__hash__",
    ): "a place in a dict, which compares what is there by the whole hash",
    (
        "kinds/cloud/gcs_api.py",
        "md5_of",
    ): "the checksum that Google Cloud Storage answers with: what was sent is what arrived",
    (
        "kinds/transfer/endpoints.py",
        "Plan.staging",
    ): "80 bits of a transfer's key, which only those choose who may write the same table",
    ("local/noetl_emulator/functions.py", "unpacked"): "96 bits of a layer, on the machine of who made it",
    ("local/tools.py", "_digest"): "64 bits of a lock file of this repository",
    (
        "runtime/local/file_watcher.py",
        "FileWatcher._look_at",
    ): "48 bits of a folder beside the name of its trigger: the folders that one trigger has had",
    ("runtime/id_source.py", "random_bits"): (
        "22 bits beside the millisecond: of executions (ADR 38), of credentials, of records of their readers (services/support/new_row_ids.py);"
        " the store refuses an id that is taken, and another is drawn"
    ),
    ("runtime/local/process_locks.py", "ProcessLock.__init__"): "96 bits of the name of a process",
    (
        "services/orchestrator/paused_events.py",
        "held_id",
    ): "64 bits that tell messages of one command, attempt and number apart; who makes two alike loses own items",
    (
        "services/orchestrator/failed_events.py",
        "unapplied_row",
    ): "64 bits of an event of one execution; of two alike, one row tells that neither was applied",
    ("templating/filters.py", ""): "the filter `md5` of templates",
}
SQL_ALLOWED = {
    (
        "execution.sql",
        "hashtextextended",
    ): "53 bits of the list of executions: a page misses one hint until the next change",
    (
        "50_limits.sql",
        "hashtext",
    ): "32 bits of a lock: transactions about two keys that have the same wait for each other",
}


def short_hashes(module: ast.Module) -> Iterator[tuple[str, int]]:
    """(function, line) of each place that cuts a digest, or takes a short one."""
    yield from _within(module, "", {})


def _within(node: ast.AST, where: str, digests: dict[str, None]) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{where}.{child.name}" if where else child.name
            yield from _within(child, inner, {})
            continue
        if isinstance(child, ast.Assign) and _is_digest(child.value, digests):
            digests |= {one.id: None for one in child.targets if isinstance(one, ast.Name)}
        if _is_short(child, digests):
            yield where, child.lineno  # type: ignore[attr-defined]
        yield from _within(child, where, digests)


def _is_digest(node: ast.AST, digests: dict[str, None]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in digests
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DIGESTS


def _is_short(node: ast.AST, digests: dict[str, None]) -> bool:
    if isinstance(node, ast.Subscript) and _is_digest(node.value, digests):
        whole = (
            isinstance(node.slice, ast.Slice) and node.slice.lower is None and node.slice.upper is not None
        )
        in_hex = isinstance(node.value, ast.Name) or node.value.func.attr == "hexdigest"  # type: ignore[attr-defined]
        return not whole or _number(node.slice.upper) < SHORT * (2 if in_hex else 1)  # type: ignore[attr-defined]
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in CHECKSUMS:
        return True
    if called in RANDOM:
        return (
            bool(node.args) and isinstance(node.args[0], ast.Constant) and _number(node.args[0]) < SHORT // 2
        )
    sizes = [one.value for one in node.keywords if one.arg == "digest_size"]
    return any(_number(size) < SHORT for size in sizes)


def _number(node: ast.AST | None) -> int:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else 0


def test_every_short_hash_says_what_a_collision_would_do() -> None:
    found = {(name(path), where): line for path in modules() for where, line in short_hashes(tree(path))}
    unknown = [
        f"{path}:{line} ({where})" for (path, where), line in found.items() if (path, where) not in ALLOWED
    ]
    assert not unknown, f"use the whole hash, or say here what a collision would do: {unknown}"
    assert not ALLOWED.keys() - found.keys(), "these are gone"


def test_the_database_hashes_nothing() -> None:
    scripts = sorted((PACKAGE / "adapters" / "postgres" / "sql").rglob("*.sql"))
    assert len(scripts) > 10
    found = {(path.name, match[1]) for path in scripts for match in SQL.finditer(_code(path))}
    assert found == SQL_ALLOWED.keys()


def _code(path: Path) -> str:
    return re.sub(r"--[^\n]*", "", path.read_text("utf-8"))


@over(
    "text",
    [
        "x = hashlib.sha256(b).hexdigest()[:8]",
        "d = hashlib.sha256(b).hexdigest()\nx = d[:31]",
        "x = hashlib.sha256(b).digest()[:15]",
        "x = hashlib.sha256(b).digest()[0] % 8",
        "x = hash(key) % 64",
        "x = zlib.crc32(b)",
        "x = hashlib.blake2b(b, digest_size=8)",
        "x = secrets.token_hex(4)",
        "x = hashlib.sha256(b).hexdigest()[-8:]",
    ],
)
def test_the_scan_knows_short_hashes(text: str) -> None:
    assert [
        where
        for where, _ in short_hashes(
            ast.parse(f"def f(b, key):\n    {text.replace(chr(10), chr(10) + '    ')}")
        )
    ] == ["f"]


@over(
    "text",
    [
        "x = hashlib.sha256(b).hexdigest()[:32]",
        "x = hashlib.sha256(b).digest()[:16]",
        "x = hashlib.sha256(b).hexdigest()",
        "x = secrets.token_hex()",
        "x = texts[:8]",
        "x = hashlib.blake2b(b, digest_size=32)",
    ],
)
def test_the_scan_knows_long_ones(text: str) -> None:
    assert not list(short_hashes(ast.parse(text)))
