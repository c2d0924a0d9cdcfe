"""What one machine can watch for: requests to it, and its files."""

from __future__ import annotations

from noetl.ports.automations.trigger_store import TriggerRow


class LocalTriggerSources:
    """Webhooks are answered, and folders looked at, by whichever process serves."""

    def whole(self, row: TriggerRow) -> TriggerRow:
        return row

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        if row.kind in ("webhook", "file"):
            return None
        return (
            f"nothing on this machine watches for {row.kind}",
            "webhook and file triggers work here; keep this one with enabled: false (--disabled), or make it on a deployment",
        )

    def put(self, row: TriggerRow, before: TriggerRow | None = None) -> None:
        """The row is all there is to it."""

    def delete(self, row: TriggerRow) -> None:
        """The row was all there was to it."""
