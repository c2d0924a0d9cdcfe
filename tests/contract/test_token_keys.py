"""Token keys as Secrets Manager has them: what a rotation does to messages that are under way."""

from __future__ import annotations

import pytest

from noetl.domain.capability_tokens import KeyRing, sign, signed, verified
from noetl.domain.errors import InfrastructureError
from noetl.runtime.aws import keys as cloud_keys
from noetl.runtime.aws.keys import EVERY_SECONDS, KEPT_SECONDS, CloudKeys
from noetl.services.messaging.back_off import USUAL
from noetl.services.orchestrator.authenticate import UNKNOWN_KEY_DELIVERIES
from tests.contract.clouds import Clock, mocked_aws

OLD, NEW = "the key before a rotation", "the key after a rotation"


@pytest.fixture
def secret(monkeypatch):
    """A client of Secrets Manager that counts, and the secret with the first key."""
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("secretsmanager")
        arn = client.create_secret(Name="tokens", SecretString=OLD)["ARN"]
        readings = []
        monkeypatch.setattr(cloud_keys, "secret_texts", _counted(cloud_keys.secret_texts, readings))
        yield client, arn, readings


def _counted(read, readings):
    def counted(client, arn):
        readings.append(arn)
        return read(client, arn)

    return counted


def test_a_rotation_refuses_nothing_and_forged_tokens_cost_a_reading_every_two_seconds(secret):
    client, arn, readings = secret
    clock = Clock()
    keys = CloudKeys(arn, clock)
    assert verified(sign(b"x", KeyRing.of([OLD])), lambda ring: True, keys) and len(readings) == 1
    client.put_secret_value(SecretId=arn, SecretString=NEW)
    token = sign(b"x", KeyRing.of([NEW]))

    def holds(ring):
        return signed(token, b"x", ring)

    for _ in range(100):
        with pytest.raises(InfrastructureError) as unknown:
            verified(token, holds, keys)
    assert unknown.value.code == "key_unknown" and len(readings) == 1
    clock.sleep(EVERY_SECONDS + 0.1)
    assert verified(token, holds, keys) and len(readings) == 2
    assert verified(sign(b"y", KeyRing.of([OLD])), lambda ring: signed(token, b"x", ring), keys), (
        "still valid"
    )
    assert not verified("no token at all", lambda ring: False, keys) and len(readings) == 2


def test_keys_are_read_again_before_a_message_of_an_unknown_key_is_refused():
    pauses = [USUAL.after(received) for received in range(1, UNKNOWN_KEY_DELIVERIES)]
    assert all(pause > EVERY_SECONDS for pause in pauses) and sum(pauses) < KEPT_SECONDS
