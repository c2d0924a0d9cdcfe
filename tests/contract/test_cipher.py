"""Ciphers: authenticated, bound to their context, and sparing with their key service."""

from __future__ import annotations

import errno
import os
import threading

import pytest
from botocore.exceptions import ClientError

from noetl.adapters.aws import kms
from noetl.adapters.aws.kms import KmsCipher
from noetl.adapters.embedded.cipher import FileCipher
from noetl.domain.errors import InfrastructureError, InvalidInputError
from tests.contract.clouds import Clock, mocked_aws

CONTEXT = {"execution": "12", "name": "tokén"}


@pytest.fixture
def aws(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        yield make_client("kms")


def a_key(client):
    return client.create_key()["KeyMetadata"]["KeyId"]


# Moto differs from KMS in three things: a wrapped key begins with the id of its master key in the clear, which it believes; it does not
# compare that with the KeyId asked for; it opens with a disabled key. What KMS answers then is in ANSWERS.
MOTO_ID = range(3, 3 + 36)


@pytest.fixture(params=["file", "kms"])
def make(request, tmp_path):
    """Ciphers of one key; ``other`` one of another key."""
    if request.param == "file":
        return lambda other=False: FileCipher(tmp_path / ("other" if other else "key"))
    client = request.getfixturevalue("aws")
    keys = [a_key(client), a_key(client)]
    return lambda other=False: KmsCipher(keys[other], client)


@pytest.mark.parametrize("plain", [b"", b"secret", bytes(range(256)) * 400])
def test_what_is_sealed_opens_again_in_another_process(make, plain):
    sealed = make().encrypt(plain, CONTEXT)
    assert make().decrypt(sealed, dict(reversed(CONTEXT.items()))) == plain
    assert len(plain) < 3 or plain not in sealed
    assert sealed != make().encrypt(plain, CONTEXT)


@pytest.mark.parametrize("context", [{}, {**CONTEXT, "name": "other"}, {**CONTEXT, "more": "1"}])
def test_another_context_opens_nothing(make, context):
    cipher = make()
    sealed = cipher.encrypt(b"secret", CONTEXT)
    for reader in (cipher, make()):
        with pytest.raises(InvalidInputError) as caught:
            reader.decrypt(sealed, context)
        assert caught.value.code == "sealed_invalid" and "secret" not in str(caught.value)


def test_another_key_opens_nothing(tmp_path):
    sealed = FileCipher(tmp_path / "key").encrypt(b"secret", CONTEXT)
    FileCipher(tmp_path / "other").encrypt(b"", CONTEXT)
    with pytest.raises(InvalidInputError):
        FileCipher(tmp_path / "other").decrypt(sealed, CONTEXT)


def test_no_bit_and_no_byte_can_be_changed(make):
    cipher = make()
    sealed = cipher.encrypt(b"secret", CONTEXT)
    places = [place for place in range(len(sealed)) if isinstance(cipher, FileCipher) or place not in MOTO_ID]
    changed = [sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :] for place in places]
    cut = [sealed[:size] for size in places]
    for broken in (*changed, *cut, sealed + b"\0", b"", b"\0" * 64, b"\x01\xff\xff" + b"a" * 40):
        with pytest.raises(InvalidInputError) as caught:
            cipher.decrypt(broken, CONTEXT)
        assert caught.value.code == "sealed_invalid"


def test_a_form_of_another_cipher_is_refused(tmp_path, aws):
    ciphers = [FileCipher(tmp_path / "key"), KmsCipher(a_key(aws), aws)]
    for cipher, other in (ciphers, reversed(ciphers)):
        with pytest.raises(InvalidInputError):
            cipher.decrypt(other.encrypt(b"x", CONTEXT), CONTEXT)


class Counting:
    def __init__(self, client):
        self.client = client
        self.made = self.opened = 0

    def generate_data_key(self, **wanted):
        self.made += 1
        return self.client.generate_data_key(**wanted)

    def decrypt(self, **wanted):
        self.opened += 1
        return self.client.decrypt(**wanted)


def test_kms_is_asked_once_per_context_for_minutes_and_uses(aws, monkeypatch):
    monkeypatch.setattr(kms, "USES", 5)
    client, clock = Counting(aws), Clock()
    key = a_key(aws)
    cipher = KmsCipher(key, client, clock=clock)
    sealed = [cipher.encrypt(b"x", CONTEXT) for _ in range(5)]
    assert client.made == 1
    assert len({text[-29 - 12 :] for text in sealed}) == 5, "a nonce was used twice"
    for text in sealed:
        cipher.decrypt(text, CONTEXT)
    assert client.opened == 0, "what a process sealed itself it opens without asking"
    other = KmsCipher(key, client, clock=clock)
    for text in sealed:
        other.decrypt(text, CONTEXT)
    assert client.opened == 1
    cipher.encrypt(b"x", CONTEXT)
    assert client.made == 2
    cipher.encrypt(b"x", {"other": "context"})
    assert client.made == 3
    clock.sleep(kms.KEEP_SECONDS + 1)
    cipher.encrypt(b"x", CONTEXT)
    cipher.decrypt(sealed[0], CONTEXT)
    assert (client.made, client.opened) == (4, 2)


def test_what_shares_a_part_of_its_context_shares_data_keys_and_is_bound_to_all_of_it(aws):
    client = Counting(aws)
    cipher = KmsCipher(a_key(aws), client, shared=frozenset({"execution"}))
    one = cipher.encrypt(b"one", CONTEXT)
    cipher.encrypt(b"two", {**CONTEXT, "name": "other"})
    assert client.made == 1
    cipher.encrypt(b"x", {**CONTEXT, "execution": "13"})
    assert client.made == 2
    assert cipher.decrypt(one, CONTEXT) == b"one"
    with pytest.raises(InvalidInputError):
        cipher.decrypt(one, {**CONTEXT, "name": "other"})


ANSWERS = {
    "IncorrectKeyException": "sealed_invalid",
    "InvalidCiphertextException": "sealed_invalid",
    "DisabledException": "aws_rejected",
    "AccessDeniedException": "aws_refused",
    "KMSInternalException": "aws_failed",
    "ThrottlingException": "aws_throttled",
}


class Answering:
    def __init__(self, code):
        self.code = code

    def decrypt(self, KeyId, CiphertextBlob, EncryptionContext):  # noqa: N803
        assert KeyId == "key" and EncryptionContext == CONTEXT
        status = 500 if "Internal" in self.code else 400
        raise ClientError(
            {"Error": {"Code": self.code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Decrypt"
        )


@pytest.mark.parametrize(("answer", "code"), ANSWERS.items())
def test_errors_of_kms_are_not_mistaken_for_bad_data(aws, answer, code):
    sealed = KmsCipher(a_key(aws), aws).encrypt(b"x", CONTEXT)
    with pytest.raises(InvalidInputError if code == "sealed_invalid" else InfrastructureError) as caught:
        KmsCipher("key", Answering(answer)).decrypt(sealed, CONTEXT)
    assert caught.value.code == code


def test_a_key_that_does_not_exist_seals_nothing(aws):
    with pytest.raises(InfrastructureError, match="NotFound"):
        KmsCipher("alias/unknown", aws).encrypt(b"x", CONTEXT)


def test_the_key_file_is_made_once_and_private(tmp_path):
    path = tmp_path / "new" / "key"
    ciphers = [FileCipher(path) for _ in range(8)]
    sealed: list[bytes] = []
    threads = [threading.Thread(target=lambda c=c: sealed.append(c.encrypt(b"x", {}))) for c in ciphers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [FileCipher(path).decrypt(text, {}) for text in sealed] == [b"x"] * 8
    assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_size == 32
    assert [found.name for found in path.parent.iterdir()] == ["key"]


@pytest.mark.parametrize(
    ("content", "mode", "words"), [(b"short", 0o600, "5 bytes"), (b"x" * 32, 0o644, "chmod 600")]
)
def test_a_key_file_that_cannot_be_trusted_is_refused(tmp_path, content, mode, words):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(InfrastructureError, match=words) as caught:
        FileCipher(path).encrypt(b"x", {})
    assert (caught.value.code, caught.value.retryable) == ("key_file", False)


def test_a_full_disk_is_an_outage_that_leaves_no_key(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(InfrastructureError, match="the disk is full") as caught:
            FileCipher(tmp_path / "key").encrypt(b"x", {})
    assert (caught.value.code, caught.value.retryable) == ("key_file", True)
    assert "df -h" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []
    assert FileCipher(tmp_path / "key").encrypt(b"x", {})


def test_opening_never_makes_a_key(tmp_path):
    sealed = FileCipher(tmp_path / "key").encrypt(b"x", {})
    with pytest.raises(InfrastructureError):
        FileCipher(tmp_path / "lost").decrypt(sealed, {})
    assert not (tmp_path / "lost").exists()


def test_a_rotation_loses_nothing_wherever_it_ends(tmp_path):
    path = tmp_path / "key"
    running, cipher = FileCipher(path), FileCipher(path)
    old = running.encrypt(b"old", CONTEXT)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt), cipher.rotation():
            new = cipher.encrypt(b"new", CONTEXT)
            raise KeyboardInterrupt
    late = running.encrypt(b"late", CONTEXT)
    for reader in (running, FileCipher(path)):
        assert [reader.decrypt(text, CONTEXT) for text in (old, new, late)] == [b"old", b"new", b"late"]
    with cipher.rotation():
        again = cipher.encrypt(b"old", CONTEXT)
        assert running.decrypt(old, CONTEXT) == b"old"
    assert len(path.read_bytes()) == 2 * 32 and path.stat().st_mode & 0o777 == 0o600
    assert running.decrypt(again, CONTEXT) == b"old" and running.decrypt(late, CONTEXT) == b"late"
    with pytest.raises(InvalidInputError):
        running.decrypt(old, CONTEXT)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["key", "key.lock"]
