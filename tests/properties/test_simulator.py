"""Hundreds of disturbed runs, each drawn from a seed; every one of them has to come to the undisturbed end.

A seed that fails says how to run it again. ``NOETL_SOAK_SEEDS=20000`` runs as many, ``NOETL_FIRST_SEED`` is the first of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.parts import parted
from tests.properties.grammar import Grammar, draw
from tests.properties.invariants import check_end
from tests.properties.places import MemoryPlace, PostgresGround
from tests.properties.redriving import lanes, redrives, rounds
from tests.properties.scenes.retention import Remover
from tests.properties.shapes import Ground, play
from tests.properties.simulator import Simulation
from tests.properties.workloads import (
    FIXED,
    Seen,
    Workload,
    check_keys,
    compare,
    expected,
    fixed_programs,
    happenings,
    observe,
    root_of,
    undisturbed,
)
from tests.properties.world import Setting, World, compile_all

FULL = 400
"""Seeds of `make test-full`."""
SEEDS = int(os.environ.get("NOETL_SOAK_SEEDS", FULL))
FIRST = int(os.environ.get("NOETL_FIRST_SEED", "0"))


GATE = 40
"""Seeds of `make test`."""


def share(part: float, soak: float | None = None) -> list[Any]:
    """The seeds of one test, which takes this part of them (``soak``: another one of more than those of `make test-full`)."""
    count = SEEDS * (soak if soak is not None and SEEDS > FULL else part)
    return parted(range(FIRST, FIRST + max(1, int(count))), range(max(1, int(GATE * part))))


SHOWN = 120
"""Last moves shown of a run that failed."""


@pytest.mark.soak("seeds in memory")
@pytest.mark.parametrize("seed", share(0.25))
def test_every_disturbed_run_comes_to_the_undisturbed_end(seed: int) -> None:
    run_seed(seed)


def setting_of(rng: random.Random) -> Setting:
    return Setting(
        inline_bytes=rng.choice((1024, 8 * 1024, 32 * 1024)),
        window=rng.choice((2, 5, 1000)),
        workers=rng.choice((1, 2, 8)),
        queues=rng.random() < 0.4,
        contention=rng.choice((0.02, 0.1, 0.5)),
        processes=rng.choice((1, 2, 3)),
        remembers=rng.random() < 0.6,
        bounded=rng.random() < 0.5,
        ahead=rng.choice((0.0, 0.5, 1.0)),
    )


@pytest.mark.soak("seeds in memory")
@pytest.mark.parametrize("seed", share(0.15))
def test_so_does_every_random_playbook(seed: int) -> None:
    run_random(seed)


def run_random(seed: int) -> None:
    """One random playbook, run undisturbed and then disturbed."""
    rng = random.Random(f"playbook {seed}")
    grammar = Grammar(rng, delays=(0, 1, 40), may_race=True)
    text = draw(grammar, f"random{seed}")
    programs = compile_all((text,))
    workload = Workload(f"properties/random{seed}", exact=not grammar.races)
    wanted = undisturbed(programs, workload)
    workload = replace(workload, ends=frozenset({wanted.status}))
    assert wanted.status in ("completed", "failed"), text
    assert wanted.error is None or wanted.error[1] == "not_found", (wanted.error, text)
    try:
        simulate(f"random {seed}", rng, [(workload, wanted)], World(programs, setting_of(rng), rng))
    except BaseException:
        print(text)
        raise


def run_seed(seed: int) -> None:
    rng = random.Random(seed)
    picked = [rng.choice(FIXED) for _ in range(rng.choice((1, 1, 2, 3)))]
    simulate(
        f"fixed {seed}",
        rng,
        [(workload, expected(workload.path)) for workload in picked],
        World(fixed_programs(), setting_of(rng), rng),
    )


@pytest.mark.soak("seeds in memory")
@pytest.mark.parametrize("seed", share(0.05))
def test_redriven_executions_keep_what_was_good(seed: int) -> None:
    run_redriven(seed)


@pytest.mark.soak("seeds in memory")
@pytest.mark.parametrize("seed", share(0.05))
def test_limits_hold_whatever_happens(seed: int) -> None:
    run_limited(seed)


@pytest.mark.soak("seeds in memory")
@pytest.mark.parametrize("seed", share(0.05))
def test_what_is_removed_meanwhile_stays_gone(seed: int) -> None:
    run_removed(seed)


@pytest.mark.soak("seeds in memory")
@pytest.mark.parametrize("seed", share(0.5))
def test_so_does_every_scene(seed: int) -> None:
    play(seed)


@pytest.fixture(scope="module")
def postgres_ground(module_database: str) -> Iterator[PostgresGround]:
    ground = PostgresGround(module_database)
    yield ground
    ground.close()


@pytest.mark.postgres
@pytest.mark.soak("seeds over Postgres")
@pytest.mark.parametrize("seed", share(0.02, soak=0.1))
def test_so_does_every_scene_over_postgres(seed: int, postgres_ground: PostgresGround) -> None:
    play(seed, postgres_ground.place)


@pytest.mark.postgres
@pytest.mark.soak("seeds over Postgres")
@pytest.mark.parametrize("seed", share(0.01, soak=0.05))
def test_what_is_removed_meanwhile_stays_gone_over_postgres(
    seed: int, postgres_ground: PostgresGround
) -> None:
    run_removed(seed, postgres_ground.place)


def run_redriven(seed: int) -> None:
    """What ended is redriven, from anywhere, twice; with the same disturbances."""
    rng = random.Random(f"redriven {seed}")
    picked = [rng.choice([one for one in FIXED if not one.waits]) for _ in range(rng.choice((1, 2)))]
    world = World(fixed_programs(), setting_of(rng), rng)
    wanted = [(workload, expected(workload.path)) for workload in picked]
    simulate(f"redriven {seed}", rng, wanted, world)
    for number in range(2):
        before, done = lanes(world), rounds(world)
        asked = redrives(world, rng, number)
        simulation = Simulation(world, rng, list(asked), budget=rng.randint(0, 40))
        try:
            simulation.run()
            check_end(world)
            after = lanes(world)
            assert all(after[lane] == rows for lane, rows in before.items())
            assert rounds(world) - done <= len(asked)
        except BaseException:
            print(f"redriven seed {seed}, {world.setting}, round {number}; the last moves:")
            print("\n".join(list(simulation.trace)[-SHOWN:]))
            print(f"run it again: python -m tests.properties.seed redriven {seed}")
            raise


def run_limited(seed: int) -> None:
    """Executions that share keys: the audit counts holders between any two moves."""
    rng = random.Random(f"limits {seed}")
    shared = [one for one in FIXED if one.path in ("properties/limited", "properties/alone")]
    picked = [rng.choice(shared) for _ in range(rng.choice((2, 3, 4)))]
    picked = [replace(one, cancelled=rng.random() < 0.3) for one in picked]
    picked = [
        replace(one, exact=False, ends=frozenset({"completed", "cancelled"})) if one.cancelled else one
        for one in picked
    ]
    wanted = [(one, expected(one.path)) for one in picked]
    simulate(f"limited {seed}", rng, wanted, World(fixed_programs(), setting_of(rng), rng))


def run_removed(seed: int, ground: Ground = MemoryPlace) -> None:
    """Retention removes what ends, in pieces, while others run, are redriven, and get reports of what is gone."""
    rng = random.Random(f"removed {seed}")
    picked = [rng.choice([one for one in FIXED if not one.waits]) for _ in range(rng.choice((2, 3, 4)))]
    world = World(fixed_programs(), setting_of(rng), rng, ground=ground)
    world.hasty = rng.choice((0.0, 0.0, 0.1))
    asked = [happenings(workload, world, number, rng, spread=400) for number, workload in enumerate(picked)]
    simulation = Simulation(world, rng, [one for some in asked for one in some], budget=rng.randint(20, 80))
    roots = {
        root_of(mine).execution_id: (one, expected(one.path)) for one, mine in zip(picked, asked, strict=True)
    }
    remover = Remover(simulation, roots)
    simulation.keeper = remover.move
    try:
        simulation.run()
        while simulation.happenings:
            simulation.run()
        remover.finish()
        check_end(world)
        assert not world.store.executions(limit=10), "everything was over, and is removed"
        assert len(world.removed) >= len(picked)
    except BaseException:
        paths = ", ".join(workload.path for workload in picked)
        print(f"removed seed {seed} ({paths}), {world.setting}; the last moves:")
        print("\n".join(list(simulation.trace)[-SHOWN:]))
        slow = "" if ground is MemoryPlace else " --postgres"
        print(f"run it again: python -m tests.properties.seed removed {seed}{slow}")
        raise


def simulate(name: str, rng: random.Random, picked: list[tuple[Workload, Seen]], world: World) -> None:
    world.hasty = rng.choice((0.0, 0.0, 0.1))
    asked = [happenings(workload, world, number, rng) for number, (workload, _) in enumerate(picked)]
    simulation = Simulation(world, rng, [one for some in asked for one in some], budget=rng.randint(0, 60))
    try:
        simulation.run()
        check_end(world, [workload.path for workload, _ in picked if workload.waits])
        check_keys(world.tools.calls)
        for (workload, wanted), mine in zip(picked, asked, strict=True):
            root = root_of(mine).execution_id
            compare(workload, wanted, observe(world.store, world.results, world.tools.calls, root))
    except BaseException:
        paths = ", ".join(workload.path for workload, _ in picked)
        print(f"seed {name} ({paths}), {world.setting}; the last moves:")
        print("\n".join(list(simulation.trace)[-SHOWN:]))
        print(f"run it again: python -m tests.properties.seed {name}")
        raise
