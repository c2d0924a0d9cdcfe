"""Identity: execution ids are time-ordered numbers; every other id is derived.

Execution ids have 63 bits. No other id is random.

Derived ids make repeats recognisable: handling one happening twice yields the same event id, and the unique key
(execution, event id) drops the second. The attempt is in no event id, so two attempts of one command cannot both count.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Container, Iterable, Iterator

EPOCH_MS = 1_704_067_200_000
"""2024-01-01T00:00:00Z: 41 bits of milliseconds last until 2093."""
RANDOM_BITS = 22
SHARD_BITS = 6
"""The lowest bits: chance for an execution that a client starts, its parent's for every other one. So a family shares them."""
SPREAD_BITS = 30
"""Most bits that tell the children of one parent apart: 16 beside the shard, and up to 14 of time, for the later items of large loops."""
WIDEST_BITS = 36
"""Most bits where ids are used up: no child sorts more than 18 minutes after its parent, regardless of what a worker reports."""
MOST_PASSED = 1 << 20
"""Derivations that a worker may pass over: more than any scope has ids."""
LARGEST_ID = (1 << 63) - 1
"""Ids have 18 digits until 2031, then 19."""


def execution_id(now_ms: int, random_bits: int) -> int:
    """41 bits of milliseconds since EPOCH_MS, then 22 random bits.

    The store keeps it unique: see ADR 0038.
    """
    return ((now_ms - EPOCH_MS) << RANDOM_BITS) | (random_bits & ((1 << RANDOM_BITS) - 1))


def first_id(at: float) -> int:
    """Return the least id of an execution that starts at ``at`` (epoch seconds) or later."""
    return execution_id(max(int(at * 1000), EPOCH_MS), 0)


def begun_at(first: int) -> float:
    """Return the start time (epoch seconds) that an id holds."""
    return ((first >> RANDOM_BITS) + EPOCH_MS) / 1000


_ID = re.compile(rb"(?<![0-9])[0-9]{10,19}(?![0-9])")


def ids_in(document: bytes) -> set[int]:
    """Return every number in an encoded document that may be an execution id."""
    return {number for found in _ID.findall(document) if (number := int(found)) <= LARGEST_ID}


START = "start"
"""What the id of every Start begins with."""
KEPT_START = "start@"
"""What the id of a Start begins with whose execution has a row before it begins."""


def start_event(origin: str = "", kept: bool = False) -> str:
    """Return the event id of a Start.

    ``origin``: distinguishes this Start from others that might get the same execution id. ``kept``: ``create`` makes a row with this
    Start.
    """
    if kept:
        return f"{KEPT_START}{origin}"
    return f"{START}:{origin}" if origin else START


def is_kept_start(event_id: str) -> bool:
    """Return whether this is the id of a Start that begins only what ``create`` made."""
    return event_id.startswith(KEPT_START)


def is_start(event_id: str) -> bool:
    """Return whether this is the id of a Start."""
    return event_id.startswith(START)


def command_id(run: int, stage: str = "body") -> str:
    """Return the id of a step run's command: its body, or a later stage (``case.<n>``)."""
    return f"{run}" if stage == "body" else f"{run}.{stage}"


def chunk_id(run: int, round_: int, start: int) -> str:
    """Return the id of the command that carries the items of a loop from ``start``."""
    return f"{run}.r{round_}.{start}"


def item_command_id(run: int, round_: int, index: int) -> str:
    """Return the id of the command that continues one item of a parallel loop."""
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


def ends_item(event_id: str) -> bool:
    """Return whether the event of an item is its last one.

    Those of earlier turns name the turn.
    """
    return event_id.count(":") == 3


def turn_of_item(event_id: str) -> int:
    """Read the turn out of an ``item_turn_event``; 0 for every other id."""
    _, mark, turn = event_id.rpartition(":t")
    return int(turn) if mark and turn.isascii() and turn.isdigit() else 0


def loop_done_event(run: int, round_: int) -> str:
    return f"loop:{run}:{round_}"


def loop_alert_event(run: int, round_: int) -> str:
    """An item asks the main lane to close the loop's gate (first one counts)."""
    return f"alert:{run}:{round_}"


def timer_event(timer: str, generation: int) -> str:
    return f"timer:{timer}:{generation}"


def child_execution_id(parent: int, origin: str, taken: Container[int] = (), item: int = -1) -> int:
    """Derive the id of the child that ``origin`` (``child_origin``) asks for.

    The same question yields the same id.

    It shares its parent's shard and sorts soon after it: within a millisecond, or within 17 s for items of large loops (``item``: which).
    ``taken``: ids that other executions have; the next derivation that is not among them is used.
    """
    bits = min(SPREAD_BITS, max(RANDOM_BITS - SHARD_BITS, 2 * item.bit_length() + 4))
    return next(child for child in _derivations(parent, origin, bits) if child not in taken)


def detached_execution_ids(
    parent: int, command: str, turn: int, item: int, passed: Iterable[int], taken: Container[int] = ()
) -> list[int]:
    """Derive ids for the children that one turn (of one item) starts without waiting.

    They are in the order in which the turn asks for them.

    ``passed``: for each child, how many derivations the worker passed over (``derivation_to_tell``). No two ids are alike.
    """
    given: dict[int, None] = {}
    for number, first in enumerate(passed, start=1):
        origin = child_origin(command, turn, item, number)
        derivations = _derivations(parent, origin, SPREAD_BITS, min(max(0, first), MOST_PASSED))
        given[next(child for child in derivations if child not in given and child not in taken)] = None
    return list(given)


def derivation_to_tell(parent: int, origin: str, known: Container[int]) -> tuple[int, int]:
    """Choose the id that a worker passes to a task for the child that ``origin`` asks for.

    Returns (id, derivations that were passed over).
    It has all bits that a child's id may have, in any loop: a task may use the id before the store has seen it.
    ``known``: ids that the task can see. If the store refuses the id later, it is replaced in all that the task said; so a task that
    knew the same id as another execution's would be taken to mean its own child by both.
    """
    return next(
        (child, passed)
        for passed, child in enumerate(_derivations(parent, origin, SPREAD_BITS))
        if child not in known
    )


def _derivations(parent: int, origin: str, bits: int, first: int = 0) -> Iterator[int]:
    return (_derived(parent, origin, bits, derivation) for derivation in itertools.count(first))


def _derived(parent: int, origin: str, bits: int, derivation: int) -> int:
    digest = hashlib.blake2b(f"{parent}/{origin}/{derivation}".encode(), digest_size=8).digest()
    # Where many in a row are taken, the ids around the parent are used up: look further ahead.
    bits = min(WIDEST_BITS, bits + derivation // 16)
    spread = int.from_bytes(digest, "big") & ((1 << bits) - 1)
    base = (parent >> RANDOM_BITS) << RANDOM_BITS | parent & ((1 << SHARD_BITS) - 1)
    return (base + (spread << SHARD_BITS)) & LARGEST_ID


def child_origin(command: str, turn: int, item: int = -1, number: int = 0) -> str:
    """Which of its children an execution asks for.

    ``item``: of a loop; ``number``: among those that the turn does not wait for, from 1.
    """
    return command + (f"/{item}" if item >= 0 else "") + (f"#{number}" if number else "") + f":{turn}"


def child_done_event(command: str, turn: int) -> str:
    return f"child:{command}:{turn}"


def callback_event(place: str, serial: int) -> str:
    """Return the event id of the answer to the callback that ``place`` waits for."""
    return f"callback:{place}:{serial}"


def callback_timer(place: str, serial: int) -> str:
    """Return the timer id of a callback with a deadline; its generation is 0."""
    return f"callback:{place}:{serial}"


def item_awaits_event(place: str, serial: int) -> str:
    return f"await:{place}:{serial}"


def late_event(event_id: str, attempt: int = 0) -> str:
    """The row, beside history, of an event that came too late or did not fit."""
    return f"late:{event_id}:{attempt}"


def held_event(event_id: str, attempt: int = 0, digest: str = "") -> str:
    """The row that keeps an event of a paused execution; outcomes of two attempts are two.

    ``digest``: of an event's text, where two events may share an id and an attempt (docs/adr/0018).
    """
    return f"held:{event_id}:{attempt}{digest and f':{digest}'}"


def given_up_event(event_id: str) -> str:
    """Name the row with which an execution fails on an event that the engine cannot handle.

    ``event_id``: of that event; its text may be anything."""
    return f"given-up:{hashlib.sha256(event_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def word_event(what: str, parent: int, seq: int) -> str:
    """Return the event id of a Pause or Resume that ``parent`` sends to its children.

    ``seq``: the row of the parent's history that sends it.
    """
    return f"{what}:{parent}:{seq}"


def cascade_event(parent: int, seq: int) -> str:
    """Name the cancel of children that row ``seq`` of ``parent``'s history abandons.

    A child may be redriven, and be given up by a later row."""
    return f"cancel:{parent}:{seq}"


def cascade_parent(event_id: str) -> int | None:
    """Return the execution that gave up this child; None: the cancel came through a door."""
    prefix, _, rest = event_id.partition(":")
    parent, _, seq = rest.partition(":")
    return int(parent) if prefix == "cancel" and parent.isdigit() and seq.isdigit() else None
