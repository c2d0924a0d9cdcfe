"""``noetl trigger``, here and at a server."""

from __future__ import annotations

import pytest

from tests.unit.cli.test_remote import far as far_fixture

far = far_fixture


@pytest.mark.parametrize("there", [(), ("--remote",)], ids=["here", "there"])
def test_a_trigger_from_its_making_to_its_end(noetl, far, there):
    far.ground.register()
    added = noetl(
        "trigger", "add", "orders", "demo/hello@1", "--webhook", "--map", "n={{ event.body.n }}", *there
    )
    assert added.code == 0 and "orders  enabled  webhook" in added.out and "/api/hooks/" in added.out
    (shown,) = noetl("trigger", "show", "orders", "--json", *there).json
    assert (shown["version"], shown["payload"]) == (1, {"n": "{{ event.body.n }}"})
    assert shown["hook"].startswith("https://" if there else "/api/hooks/")
    (rotated,) = noetl("trigger", "rotate", "orders", "--json", *there).json
    assert rotated["hook"] != shown["hook"]
    (fired,) = noetl("trigger", "fire", "orders", "--set", "n=4", "--key", "k", "--json", *there).json
    again = noetl("trigger", "fire", "orders", "--set", "n=4", "--key", "k", *there)
    assert fired["status"] == "started" and f"{fired['execution_id']}  (started before" in again.out
    assert "disabled" in noetl("trigger", "disable", "orders", *there).out
    refused = noetl("trigger", "fire", "orders", *there)
    assert refused.code == 2 and "noetl trigger enable orders" in refused.err
    assert "orders" in noetl("trigger", "list", *there).out
    assert noetl("trigger", "enable", "orders", *there).code == 0
    assert noetl("trigger", "delete", "orders", *there).out == "orders is deleted\n"
    assert noetl("trigger", "list", "--json", *there).json == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--webhook", "--folder", "."], "one of --webhook, --folder, --bucket, --events and --queue"),
        ([], "one of --webhook, --folder, --bucket, --events and --queue"),
        (["--events", "{"], "--events is not JSON"),
        (["--events", "[]"], "--events is not a mapping"),
        (["--folder", ".", "--signed-with", "hub"], "--signed-with goes with --webhook"),
        (["--webhook", "--signature-header", "X-Sig"], "--signature-header with both"),
        (["--webhook", "--signed-with", "hub"], "source.credential names no credential"),
        (["--webhook", "--map", "n"], "is not NAME=TEMPLATE"),
        (["--webhook", "--event-id", "{{ event. }}"], "event_id: "),
        (["--bucket", "NO"], "source.bucket is 'NO'"),
        (["--folder", "in", "--files", "a/b"], "source.pattern"),
        (["--queue", "https://sqs/1/q"], "source.queue is 'https://sqs/1/q'"),
        (["--queue", "orders", "--batch", "3"], "triggers.queues"),
    ],
)
def test_what_cannot_be_is_told(noetl, far, words, told):
    far.ground.register()
    refused = noetl("trigger", "add", "t", "demo/hello", *words)
    assert refused.code == 2 and told in refused.err
