"""The tier disk: what happens to a result when a process dies, a disk is full or lies, and the cloud is away."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading

import pytest

from noetl.adapters.disk import pools as pools_module
from noetl.adapters.disk import store as store_module
from noetl.adapters.disk.store import DiskResultStore
from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.result_uri import result_key
from noetl.domain.errors import ConflictError, InfrastructureError, NotFoundError, TaskError
from noetl.domain.results.references import ref_uri
from noetl.services.results.stored_bytes import fetch
from tests.waiting import PATIENCE, wait_until

MIB = 1024 * 1024
A, B, C = (ref_uri(7, "load", name) for name in "abc")


class Cloud(MemoryResultStore):
    """It can be away, and counts what is read."""

    name = "s3"

    def __init__(self):
        super().__init__()
        self.away = False
        self.reads = 0

    def put(self, uri, data):
        self._reached()
        super().put(uri, data)

    def get(self, uri):
        self._reached()
        self.reads += 1
        return super().get(uri)

    def _reached(self):
        if self.away:
            raise InfrastructureError("s3 does not answer", code="aws_unreachable")


@pytest.fixture
def ground(tmp_path):
    cloud, opened, lines = Cloud(), [], []

    def disk(waits=False, **wanted):
        opened.append(DiskResultStore(tmp_path / "cache", cloud, waits=waits, log=lines.append, **wanted))
        return opened[-1]

    yield disk, cloud, tmp_path / "cache", lines
    cloud.away = False
    for one in opened:
        one.close()


def body(folder, uri):
    (found,) = [path for path in folder.glob("data/7/*") if path.name == result_key(uri)[1]]
    return found


def test_what_is_written_here_comes_to_the_cloud_by_itself(ground):
    disk, cloud, folder, _ = ground
    store = disk()
    store.put(A, b"a" * 1000)
    writer = store.writer(B)
    writer.write(b"b" * (2 * MIB + 1))
    writer.commit()
    assert store.spill.drain(PATIENCE)
    assert cloud.get(A) == b"a" * 1000 and len(cloud.get(B)) == 2 * MIB + 1
    assert list((folder / "pending").iterdir()) == []
    cloud.reads = 0
    assert store.get(B) == b"b" * (2 * MIB + 1) and cloud.reads == 0


def test_a_crash_between_the_disk_and_the_cloud(ground):
    """The reference was published; the next process brings its bytes."""
    disk, cloud, folder, lines = ground
    cloud.away = True
    died = disk()
    died.put(A, b"a")
    assert len(list((folder / "pending").iterdir())) == 1
    died.close(0.05)
    assert any("have not reached" in line for line in lines)
    cloud.away = False
    assert disk().get(A) == b"a", "it is read here, whoever wrote it"
    with pytest.raises(NotFoundError):
        cloud.get(A)
    after = disk()
    after.start()
    assert after.spill.drain(PATIENCE) and cloud.get(A) == b"a"
    assert list((folder / "pending").iterdir()) == []


@pytest.mark.parametrize("streamed", [False, True])
def test_another_process_that_starts_between_the_mark_and_the_bytes(ground, monkeypatch, streamed):
    """It finds a mark without bytes, as of a writer that died."""
    disk, cloud, folder, _ = ground
    store, others = disk(), []
    store.start()
    mark = pools_module.Pools.mark

    def marked(self, key, uri):
        mark(self, key, uri)
        if not others:
            others.append(disk())
            others[0].start()
            assert others[0].spill.drain(PATIENCE)

    monkeypatch.setattr(pools_module.Pools, "mark", marked)
    if streamed:
        writer = store.writer(A)
        writer.write(b"a")
        writer.commit()
    else:
        store.put(A, b"a")
    assert store.spill.drain(PATIENCE) and cloud.get(A) == b"a"
    assert list((folder / "pending").iterdir()) == []


@pytest.mark.parametrize("again", [False, True])
def test_an_object_that_is_deleted_while_it_is_uploaded(ground, monkeypatch, again):
    """Its bytes do not come back; what is written under its name meanwhile reaches the cloud, and stays pending until then."""
    disk, cloud, folder, _ = ground
    store, copied = disk(), store_module.Spill._copied
    monkeypatch.setattr(store_module.Spill, "start", lambda self: None)  # its turns are made by this test

    def between(self, key, stream, writer):
        done = copied(self, key, stream, writer)
        monkeypatch.setattr(store_module.Spill, "_copied", copied)
        store.delete([A])
        if again:
            store.put(A, b"new")
        return done

    store.put(A, b"old")
    monkeypatch.setattr(store_module.Spill, "_copied", between)
    store.spill.bring(result_key(A), A)
    with pytest.raises(NotFoundError):
        cloud.get(A)
    assert len(list((folder / "pending").iterdir())) == int(again)
    if again:
        store.spill.bring(result_key(A), A)
        assert cloud.get(A) == b"new" == store.get(A)


def test_an_object_that_is_written_again_while_it_is_deleted_reaches_the_cloud(ground, monkeypatch):
    disk, cloud, _, _ = ground
    store, delete, uploads = disk(), cloud.delete, []
    monkeypatch.setattr(store_module.Spill, "start", lambda self: None)  # its turns are made by this test

    def slow(uris):
        store.put(A, b"new")
        uploads.append(threading.Thread(target=store.spill.bring, args=(result_key(A), A)))
        uploads[0].start()
        if not store.spill._commits.locked():
            uploads[0].join(PATIENCE)
        delete(uris)

    store.put(A, b"old")
    store.spill.bring(result_key(A), A)
    monkeypatch.setattr(cloud, "delete", slow)
    store.delete([A])
    uploads[0].join(PATIENCE)
    assert cloud.get(A) == b"new" == store.get(A)


def test_bytes_that_come_while_their_mark_is_taken_for_a_dead_one(ground, monkeypatch):
    """The other process looked for the bytes before they were there, and removes the mark after they are."""
    disk, cloud, folder, _ = ground
    store, other = disk(), disk()
    store.start()
    key, look, late = result_key(A), pools_module.Pools.open, []

    def looked(self, asked):
        found = look(self, asked)
        if not late:
            late.append(found)
            store.put(A, b"a")
        return found

    cloud.away = True
    store._pools.mark(key, A)
    monkeypatch.setattr(pools_module.Pools, "open", looked)
    other.spill.bring(key, A)
    assert late == [None] and len(list((folder / "pending").iterdir())) == 1
    cloud.away = False
    after = disk()
    after.start()
    assert after.spill.drain(PATIENCE) and cloud.get(A) == b"a"


def test_crashes_around_the_mark(ground):
    """A mark without bytes: nobody was told. Bytes that are in the cloud already: its writer died before it could say so."""
    disk, cloud, folder, lines = ground
    store = disk()
    cloud.away = True
    store.put(A, b"a")
    store.put(B, b"b")
    store.close(0.05)
    cloud.away = False
    body(folder, A).unlink()
    MemoryResultStore.put(cloud, B, b"b")
    after = disk()
    after.start()
    assert after.spill.drain(PATIENCE) and list((folder / "pending").iterdir()) == []
    with pytest.raises(NotFoundError):
        cloud.get(A)
    assert cloud.get(B) == b"b" and not any("other content" in line for line in lines)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_copy_is_read_from_the_cloud(ground, damage):
    disk, cloud, folder, lines = ground
    store, data = disk(waits=True), os.urandom(2 * MIB + 10)
    store.put(A, data)
    assert store.get(A) == data and cloud.reads == 0
    path = body(folder, A)
    if damage == "flipped":
        raw = bytearray(path.read_bytes())
        raw[MIB + 5] ^= 1
        path.write_bytes(raw)
    elif damage == "cut":
        os.truncate(path, MIB + 7)
    else:
        (folder / "meta" / "7" / path.name).write_bytes(b"{")
    with contextlib.closing(store.reader(A)) as reader:
        assert b"".join(iter(lambda: reader.read(300_000), b"")) == data
    assert cloud.reads == 1 and sum("damaged copy" in line for line in lines) == 1
    assert store.get(A) == data and store.get(A) == data and cloud.reads == 2, "a good copy is here again"


def test_what_was_damaged_before_it_came_here_is_read_again(ground):
    """A copy of damaged bytes has the checksums of damage: whoever knows better says so."""
    disk, cloud, _, _ = ground
    store, whole, read = disk(waits=True), b"[1,2]", MemoryResultStore.get
    MemoryResultStore.put(cloud, A, whole)
    ref = {"ref": A, "store": "disk", "sha256": hashlib.sha256(whole).hexdigest()}
    cloud.get = lambda uri: b"[1,3]"
    with pytest.raises(TaskError, match="checksum"):
        fetch(store, ref)
    assert store.get(A) == b"[1,3]", "who has no checksum believes the copy"
    cloud.get = lambda uri: read(cloud, uri)
    assert fetch(store, ref) == whole == store.get(A)


def test_damage_of_the_only_copy_is_told_and_never_reaches_the_cloud(ground):
    disk, cloud, folder, lines = ground
    cloud.away = True
    store = disk()
    store.put(A, b"a" * 100)
    store.close(0.05)
    body(folder, A).write_bytes(b"a" * 99 + b"b")
    with pytest.raises(NotFoundError, match="damaged") as caught:
        disk().get(A)
    assert caught.value.code == "REFERENCE_NOT_AVAILABLE"
    cloud.away = False
    after = disk()
    after.start()
    assert after.spill.drain(PATIENCE) and any("is lost" in line for line in lines)
    with pytest.raises(NotFoundError):
        after.get(A)


def test_a_full_disk_is_not_the_end(ground, monkeypatch):
    """Values go to the cloud at once; a stream that was under way is asked for again, and goes there then."""
    disk, cloud, folder, lines = ground
    now = [0.0]
    store = disk(clock=lambda: now[0])
    part = store.writer(C)
    part.write(b"c" * 100)

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pools_module.PartFile, "write", full)
        with pytest.raises(InfrastructureError) as caught:
            part.write(b"c")
        assert caught.value.retryable and caught.value.code == "result_store_full"
        part.abort()
        store.put(A, b"a")
        assert cloud.get(A) == b"a"
        again = store.writer(C)
        again.write(b"c" * 200)
        again.commit()
        assert len(cloud.get(C)) == 200
    assert sum("takes nothing more" in line for line in lines) == 1
    assert not list(folder.glob("pending/*"))
    now[0] += 61
    store.put(B, b"b")
    assert body(folder, B).exists()


def test_a_cloud_that_is_away_is_waited_for_or_told(ground):
    disk, cloud, _, lines = ground
    cloud.away = True
    with pytest.raises(InfrastructureError) as caught:
        disk(waits=True).put(A, b"a")
    assert caught.value.retryable
    store = disk()
    store.put(B, b"b")
    wait_until(lambda: lines, "a line about the cloud")
    assert "results wait on this disk" in lines[0]
    cloud.away = False
    assert store.spill.drain(PATIENCE) and cloud.get(B) == b"b"


def test_budgets(ground):
    """What was used last stays; what has not reached the cloud always does; what does not fit goes to the cloud at once."""
    disk, cloud, folder, _ = ground
    store = disk(waits=True, data_bytes=250)
    for uri in (A, B):
        store.put(uri, b"x" * 100)
    store.get(A)
    store.put(C, b"y" * 100)
    assert body(folder, A).exists() and body(folder, C).exists() and len(list(folder.glob("data/7/*"))) == 2
    assert store.get(B) == b"x" * 100 and cloud.reads == 1
    cloud.away = True
    pending = disk(data_bytes=400)
    late = ref_uri(7, "load", "late")
    pending.put(late, b"z" * 300)
    cloud.away = False
    huge = ref_uri(7, "load", "huge")
    writer = pending.writer(huge)
    for _ in range(5):
        writer.write(b"h" * 100)
    writer.commit()
    assert cloud.get(huge) == b"h" * 500 and pending.get(late) == b"z" * 300


def test_inserts_are_limited_by_rate(ground):
    disk, cloud, folder, _ = ground
    now = [0.0]
    store = disk(waits=True, insert_rate=100, clock=lambda: now[0])
    for uri in (A, B, C):
        store.put(uri, b"x" * 90)
    assert len(list(folder.glob("data/7/*"))) == 2 and cloud.get(C) == b"x" * 90
    now[0] += 1
    store.get(C)
    assert len(list(folder.glob("data/7/*"))) == 3


def test_a_new_process_begins_warm_and_without_a_word(ground):
    """It knows what lies here without reading it, and what cannot be used goes."""
    disk, cloud, folder, lines = ground
    disk(waits=True).put(A, b"a" * 100)
    (folder / "data" / "7" / "rubbish").write_bytes(b"x")
    os.utime(folder / "data" / "7" / "rubbish", (1, 1))
    (folder / "data" / "odd").mkdir()
    (folder / "pending").mkdir(exist_ok=True)
    (folder / "pending" / "nonsense").write_bytes(b"\xff")
    store = disk(data_bytes=150)
    store.start()
    store.put(B, b"b" * 100)
    assert store.spill.drain(PATIENCE)
    assert lines == [] and not (folder / "data" / "7" / "rubbish").exists()
    assert store.get(B) == b"b" * 100 and cloud.reads == 0
    store.put(C, b"c" * 100)
    assert store.spill.drain(PATIENCE) and len(list(folder.glob("data/7/*"))) == 1


def test_budgets_hold_for_what_earlier_processes_left(ground):
    """Also where nothing has to be brought anywhere."""
    disk, _, folder, _ = ground
    for uri in (A, B, C):
        disk(waits=True).put(uri, b"x" * 100)
    disk(waits=True, data_bytes=150).start()
    wait_until(lambda: len(list(folder.glob("data/7/*"))) <= 1, "the tidying")
    assert len(list(folder.glob("data/7/*"))) == 1


def test_an_execution_that_is_deleted_leaves_nothing_anywhere(ground):
    disk, cloud, folder, _ = ground
    store = disk()
    store.put(A, b"a")
    assert store.spill.drain(PATIENCE)
    cloud.away = True
    store.put(B, b"b")
    cloud.away = False
    store.delete_execution(7)
    assert store.spill.drain(PATIENCE)
    for uri in (A, B):
        with pytest.raises(NotFoundError):
            store.get(uri)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_an_object_that_is_committed_while_its_execution_is_deleted_counts_once(ground, monkeypatch):
    """A deletion that begins between the commit in the cloud and the end of the mark waits for the mark."""
    disk, cloud, _, _ = ground
    store, counts, threads = disk(), [], []

    def put(uri, data):
        MemoryResultStore.put(cloud, uri, data)
        threads.append(threading.Thread(target=lambda: counts.append(store.delete_execution(7))))
        threads[0].start()
        wait_until(lambda: counts or store.spill._commits.locked())

    monkeypatch.setattr(cloud, "put", put)
    store.put(A, b"a")
    assert store.spill.drain(PATIENCE)
    threads[0].join(PATIENCE)
    assert counts == [1]
    with pytest.raises(NotFoundError):
        store.get(A)


def test_other_content_under_the_same_name_is_refused_here_too(ground):
    disk, _, _, _ = ground
    store = disk()
    store.put(A, b"a")
    store.put(A, b"a")
    with pytest.raises(ConflictError):
        store.put(A, b"b")
