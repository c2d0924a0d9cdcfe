"""Identity: execution ids are time-ordered 64-bit numbers; every other id is derived, never random.

Derived ids make repeats recognisable: handling the same happening twice gives the same event id, and the unique key
(execution, event id) drops the second. The attempt is in no event id, so two attempts of one command cannot both count.
"""

from __future__ import annotations

EPOCH_MS = 1_704_067_200_000
"""2024-01-01T00:00:00Z: 41 bits of milliseconds last until 2093."""
RANDOM_BITS = 22
LARGEST_ID = (1 << 63) - 1
"""Ids have 18 digits until 2031, then 19."""


def execution_id(now_ms: int, random_bits: int) -> int:
    """41 bits of milliseconds since EPOCH_MS, then 22 random bits (unique by constraint, not by luck)."""
    return ((now_ms - EPOCH_MS) << RANDOM_BITS) | (random_bits & ((1 << RANDOM_BITS) - 1))


def start_event() -> str:
    return "start"


def command_id(run: int, stage: str = "body") -> str:
    """The command of a step run: its body, or a later stage (``case.<n>``)."""
    return f"{run}" if stage == "body" else f"{run}.{stage}"


def chunk_id(run: int, round_: int, start: int) -> str:
    """The command that carries the items of a loop from ``start``."""
    return f"{run}.r{round_}.{start}"


def item_command_id(run: int, round_: int, index: int) -> str:
    """The continuation of one item of a parallel loop."""
    return f"{run}.r{round_}.i{index}"


def outcome_event(command: str, turn: int) -> str:
    return f"cmd:{command}:{turn}"


def items_event(command: str, attempt: int, turn: int, number: int) -> str:
    """``number``: of the message, among those of this turn."""
    return f"items:{command}:{attempt}:{turn}:{number}"


def item_event(run: int, round_: int, index: int) -> str:
    return f"item:{run}:{round_}:{index}"


def item_turn_event(run: int, round_: int, index: int, turn: int) -> str:
    """An item that was suspended: one row per turn, besides the item's own."""
    return f"item:{run}:{round_}:{index}:t{turn}"


def loop_done_event(run: int, round_: int) -> str:
    return f"loop:{run}:{round_}"


def loop_alert_event(run: int, round_: int) -> str:
    """An item asks the main lane to close the loop's gate (first one counts)."""
    return f"alert:{run}:{round_}"


def timer_event(timer: str, generation: int) -> str:
    return f"timer:{timer}:{generation}"


def child_execution_id(parent: int, command: str, turn: int) -> int:
    """A child's id is derived from who asked for it, so that asking twice starts one child.

    The time part is the parent's (children live in their parent's partition); the random part is a hash.
    """
    value = 1469598103934665603
    for byte in f"{parent}/{command}/{turn}".encode():
        value = ((value ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    value ^= value >> 32
    return ((parent >> RANDOM_BITS) << RANDOM_BITS) | (value & ((1 << RANDOM_BITS) - 1))


def child_done_event(command: str, turn: int) -> str:
    return f"child:{command}:{turn}"


def callback_event(place: str, serial: int) -> str:
    """Somebody outside has said what ``place`` waits for."""
    return f"callback:{place}:{serial}"


def callback_timer(place: str, serial: int) -> str:
    """The timer of a callback that has to come in time; its generation is 0."""
    return f"callback:{place}:{serial}"


def item_awaits_event(place: str, serial: int) -> str:
    return f"await:{place}:{serial}"


def held_event(event_id: str, attempt: int = 0) -> str:
    """The row that keeps an event of a paused execution; outcomes of two attempts are two."""
    return f"held:{event_id}:{attempt}"


def word_event(what: str, parent: int, seq: int) -> str:
    """``parent`` tells its children to pause or resume, in row ``seq`` of its history."""
    return f"{what}:{parent}:{seq}"


def cascade_event(parent: int) -> str:
    """The end of ``parent`` cancels its children."""
    return f"cancel:{parent}"


def cascade_parent(event_id: str) -> int | None:
    """Whose end sent this cancel; None when somebody asked for it."""
    prefix, _, parent = event_id.partition(":")
    return int(parent) if prefix == "cancel" and parent.isdigit() else None
