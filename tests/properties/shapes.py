"""Whole scenes drawn from a seed: programs, data, clients and the machines they run on, in the shapes that ordinary workloads do not have.

``play`` runs one. What it came to is what the undisturbed run of the same programs and data came to.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from noetl.domain import codec, ids
from noetl.domain.errors import NoetlError
from noetl.domain.state import TERMINAL, decode_state
from tests.properties import hostile
from tests.properties.accounts import check_cancelled, check_paused, family
from tests.properties.doors import Client, Root
from tests.properties.grammar import Grammar, draw
from tests.properties.happening import Happening
from tests.properties.invariants import check_end
from tests.properties.places import MemoryPlace, Place
from tests.properties.scenes.members import steer_members
from tests.properties.scenes.poison import poison
from tests.properties.scenes.removals import check_removed
from tests.properties.simulator import Simulation
from tests.properties.workloads import Seen, Workload, check_keys, compare, observe
from tests.properties.world import Setting, World, compile_all

SHOWN = 150
KINDS = ("crowd", "crowd", "family", "family", "hostile", "control", "control", "lingering")
"""``crowd``, ``family``, ``control``: a random playbook, small or large, with what clients do to it. ``hostile``: the worst texts in every
place. ``lingering``: a family that only ends when it is cancelled."""
LINGERING = "properties/lingering"
RIVAL = "properties/leaf"
"""What a second client starts, which draws the same id at the same moment."""
Ground = Callable[[Callable[[], float]], Place]


@dataclass
class Scene:
    """``text``: of the random playbook, shown when the seed fails. ``controls``: what clients do to the first of the roots."""

    seed: int
    kind: str
    rng: random.Random
    world: World
    wanted: Seen
    workload: Workload
    root: Root
    rude: float
    text: str = ""
    controls: str = ""
    lines: list[str] = field(default_factory=list)


def setting_of(rng: random.Random) -> Setting:
    """A deployment with little memory, where every number is small."""
    return Setting(
        inline_bytes=rng.choice((1024, 8 * 1024, 32 * 1024)),
        window=rng.choice((2, 5, 1000)),
        workers=rng.choice((1, 2, 8)),
        queues=rng.random() < 0.3,
        contention=rng.choice((0.0, 0.02, 0.1, 0.5)),
        processes=rng.choice((1, 2, 3)),
        remembers=rng.random() < 0.7,
        bounded=rng.random() < 0.3,
        eager=rng.choice((0.5, 0.5, 0.05)),
        loops=rng.choice((2, 3, 4)),
        recents=rng.choice((1, 2, 1024)),
        programs=rng.choice((1, 2, 256)),
        skew=rng.choice((0.0, 3.0, 4000.0)),
        ahead=rng.choice((0.0, 0.5, 1.0)),
    )


@contextlib.contextmanager
def narrow_ids(bits: int | None) -> Iterator[None]:
    """Tell children of one parent apart by so many bits at first, so that a few meet as millions would."""
    if bits is None:
        yield
        return
    derived = ids._derived

    def narrow(parent: int, origin: str, spread: int, derivation: int) -> int:
        return derived(parent, origin, min(spread, bits), derivation)

    with mock.patch.object(ids, "_derived", narrow):
        yield


def scene_of(seed: int, ground: Ground = MemoryPlace) -> Scene:
    """Draw everything but the disturbances."""
    rng = random.Random(f"shape {seed}")
    kind = rng.choice(KINDS)
    text, sent, rude, exact = "", dict[str, Any](), 0.0, True
    path, payload = f"properties/shape{seed}", dict[str, Any]()
    if kind == "hostile":
        path, payload, rude = "properties/hostile", hostile_payload(rng), 0.5
        sent = {"value": payload["value"], "map": payload["map"]}
        sent |= {f"list.{place}": one for place, one in enumerate(payload["list"])}
    elif kind == "lingering":
        path = LINGERING
    else:
        grammar = Grammar(
            rng, delays=(0, 1, 40), crowded=True, large=kind == "family" and rng.random() < 0.15
        )
        text = draw(grammar, f"shape{seed}")
        exact = not grammar.races
    programs, setting = compile_all((text,) if text else ()), setting_of(rng)
    calm = Setting(
        inline_bytes=setting.inline_bytes
    )  # what is put aside is a reference, which is no name of a lock, say
    root = Root(World(programs, calm), path, payload, 1)
    if kind == "hostile":
        root.principal, root.key = hostile.text(rng), rng.choice(("", hostile.name(rng)))
    workload = Workload(path, payload, exact=exact)
    wanted = undisturbed(root, sent)
    workload = replace(workload, ends=frozenset({wanted.status}))
    world = World(programs, setting, rng, ground=ground)
    world.tools.sent = {name: codec.encode(value) for name, value in sent.items()}
    scene = Scene(
        seed,
        kind,
        rng,
        world,
        wanted,
        workload,
        replace(root, world=world, execution_id=0, tried=False, drawn=[]),
        rude,
        text,
    )
    if kind == "lingering":
        scene.controls = rng.choice(("stop", "cancel", "again", "again", "members", "members", "poison"))
    elif kind == "family":
        scene.controls = rng.choice(("", "members", "poison"))
    else:
        scene.controls = rng.choice(
            ("", "pause", "pause", "stop", "cancel", "again", "again", "members", "poison")
        )
    if text:
        error = wanted.error
        assert wanted.status in ("completed", "failed") and (error is None or error[1] == "not_found"), (
            f"undisturbed it comes to {wanted.status} {error}: {text}"
        )
    return scene


def hostile_payload(rng: random.Random) -> dict[str, Any]:
    """A workload with the worst there is in every place."""
    return {
        "value": hostile.value(rng),
        "lock": hostile.text(rng),
        "key": hostile.text(rng),
        "list": [hostile.value(rng) for _ in range(rng.choice((0, 2, 5)))],
        "map": hostile.mapping(rng),
        **({hostile.name(rng): hostile.value(rng)} if rng.random() < 0.5 else {}),
    }


def undisturbed(root: Root, sent: dict[str, Any]) -> Seen:
    """One process, nothing goes wrong, everything in order. A start that is refused has no execution: status ``refused``."""
    world = root.world
    world.tools.sent = {name: codec.encode(value) for name, value in sent.items()}
    process = world.spawn()
    driver = process.driver
    try:
        driver.submit(*root.start(process))
    except NoetlError as error:
        return Seen("refused", (str(error),), None, None, None, {}, {})  # type: ignore[arg-type]
    driver.settle()
    while driver.advance() or world.outside.open:
        driver.submit(*world.outside.answer_all(process.owner))
        driver.settle()
    assert not world.tools.mixed, f"law runs-see-their-own-result, undisturbed: {world.tools.mixed}"
    assert not world.tools.changed, f"law values-arrive-as-they-left, undisturbed: {world.tools.changed}"
    return observe(world.store, world.results, world.tools.calls, root.execution_id)


def play(seed: int, ground: Ground = MemoryPlace) -> None:
    """Run a seed; what fails shows the scene, the last moves, and how to run it again."""
    scene = None
    try:
        scene = scene_of(seed, ground)
        with narrow_ids(scene.rng.choice((None, None, 3, 6))):
            _play(scene)
            check_removed(scene.world)
    except BaseException:
        if scene is not None:
            print(scene.text)
            print(scene.root.payload)
            print(f"seed {seed} ({scene.kind}, {scene.controls}), {scene.world.setting}; the last moves:")
            print("\n".join(list(scene.lines)[-SHOWN:]))
        print(
            f"run it again: python -m tests.properties.seed shape {seed}{' --postgres' if _slow(ground) else ''}"
        )
        raise


def _slow(ground: Ground) -> bool:
    return ground is not MemoryPlace


def _play(scene: Scene) -> None:
    rng, world, root = scene.rng, scene.world, scene.root
    client = Client(root, rng, scene.rude)
    world.hasty = rng.choice((0.0, 0.0, 0.1))
    first = [client.ask("start", rng.randint(0, 10))]
    first += _rival(scene)
    if scene.rude:
        first += [client.ask("patch", rng.randint(5, 60)) for _ in range(rng.randint(0, 2))]
    simulation = Simulation(world, rng, first, budget=rng.choice((0, 10, 30)))
    scene.lines = simulation.trace  # type: ignore[assignment]
    changed = _controlled(scene, client, simulation)
    simulation.run()
    if not root.execution_id:
        assert scene.wanted.status == "refused" or scene.kind == "hostile", simulation.refused
        return
    if (root.execution_id, "cancel", False) not in client.said:
        check_cancelled(world, root.execution_id)
    _end_those_alone(simulation, client)
    check_end(world)
    check_keys(world.tools.calls)
    seen = observe(world.store, world.results, world.tools.calls, root.execution_id)
    workload = scene.workload
    if scene.kind == "hostile" and seen.status == scene.wanted.status == "failed":
        return  # Several branches were refused; which one is told of is a race.
    if scene.controls in ("members", "poison") and changed:
        return  # What its playbook does about a member that is cancelled or fails, no other run can tell.
    if changed or scene.rude:
        ends = {scene.wanted.status} | ({"cancelled"} if changed else set())
        workload = replace(workload, exact=False, ends=frozenset(ends))
    compare(workload, scene.wanted, seen)


def _rival(scene: Scene) -> list[Happening]:
    """In some scenes another client's start draws the id of the root. Keys tell each client's own execution from the other's, also when an
    answer is lost."""
    rng, root = random.Random(f"rival {scene.seed}"), scene.root
    if rng.random() >= 0.2:
        return []
    root.key = root.key or "of the root"
    rival = Root(scene.world, RIVAL, {"n": 1}, root.number, key="of the rival", drawn=root.drawn)
    return [Client(rival, rng, 0.0).ask("start", rng.randint(0, 10))]


def _controlled(scene: Scene, client: Client, simulation: Simulation) -> bool:
    """What clients do meanwhile. True when the end may differ from that of the undisturbed run."""
    if not scene.controls:
        return False
    rng, world, root = scene.rng, scene.world, scene.root
    simulation.some_moves(rng.randint(5, 120))
    if scene.controls == "members":
        steer_members(simulation, client)
        return scene.kind == "lingering" or any(what == "cancel" for _, what, _ in client.said)
    if scene.controls == "poison":
        return poison(simulation, root.execution_id) or scene.kind == "lingering"
    if scene.controls in ("pause", "stop"):
        _still(simulation, client, root)
        simulation.happenings.append(client.ask("resume" if scene.controls == "pause" else "cancel"))
        return scene.controls == "stop"
    simulation.happenings.append(client.ask("cancel"))
    if scene.controls == "cancel":
        return True
    simulation.run()
    for _ in range(rng.choice((1, 1, 2)) if root.execution_id else 0):
        check_cancelled(world, root.execution_id)
        members = family(world.store.executions(limit=100_000), root.execution_id)
        members = [one for one in members if one.status in TERMINAL and decode_state(one.state).program]
        rest = [one.execution_id for one in members if one.execution_id != root.execution_id]
        picked = [root.execution_id, *rng.sample(rest, min(len(rest), rng.randint(0, 2)))]
        rng.shuffle(picked)
        asked = [client.ask("redrive", simulation.moves + rng.randint(0, 5), one) for one in picked]
        simulation.happenings += asked
        simulation.budget = rng.choice((0, 5))
        simulation.some_moves(rng.randint(10, 120))
        if scene.kind == "lingering":  # A redrive that is applied after the cancel would go on, as it should.
            simulation.run()
        simulation.happenings.append(client.ask("cancel"))
        simulation.run()
    simulation.budget = 0
    return True


def _end_those_alone(simulation: Simulation, client: Client) -> None:
    """Cancel what lingers: redriven under a parent that has ended, or never cancelled because its start was not answered."""
    if client.root.path != LINGERING:
        return
    live = [info for info in simulation.world.store.executions(limit=100_000) if info.status not in TERMINAL]
    known = {info.execution_id for info in live}
    tops = [info.execution_id for info in live if info.parent_execution_id not in known]
    if tops:  # The word reaches those below; a parent would fail of a child that is cancelled before it.
        simulation.happenings += [client.ask("cancel", execution_id=one) for one in tops]
        simulation.run()


def _still(simulation: Simulation, client: Client, root: Root) -> None:
    """Pause, and let everything come to rest; then the family is still, and stays so."""
    simulation.happenings.append(client.ask("pause"))
    while simulation.happenings:
        simulation.some_moves(1)
    simulation.settle()
    if root.execution_id:
        check_paused(simulation.world, root.execution_id)
