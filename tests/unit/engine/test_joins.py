"""Which token fires next, on bare graphs: ``"a>c b>c"`` are arcs in playbook order; tokens are ``step:phase``."""

import pytest

from noetl.domain.state import ExecutionState, Token
from noetl.dsl.program import Arc, Program, Step
from noetl.engine.joins import Firing, WaveOver, next_ready, stuck


def graph(arcs: str, joins: dict[str, str] | None = None) -> Program:
    pairs = [tuple(arc.split(">")) for arc in arcs.split()]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    edges = {name: [target for source, target in pairs if source == name] for name in names}

    def reaches(name: str) -> tuple[str, ...]:
        seen: list[str] = []
        todo = list(edges[name])
        while todo:
            step = todo.pop(0)
            if step not in seen:
                seen.append(step)
                todo += edges[step]
        return tuple(seen)

    steps = tuple(
        Step(
            name,
            index,
            "canonical",
            arcs=tuple(
                Arc(target, number) for number, (source, target) in enumerate(pairs) if source == name
            ),
            incoming=sum(target == name for _, target in pairs),
            reaches=reaches(name),
            join=(joins or {}).get(name, "sync"),
        )
        for index, name in enumerate(names)
    )
    return Program(1, 1, arcs, "g", "g", steps=steps)


def state(tokens: str, fired: tuple[str, ...] = ()) -> ExecutionState:
    made = {}
    for run, token in enumerate(tokens.split(), start=1):
        step, phase, *arc = token.split(":")
        made[run] = Token(run, step, phase, arc=int(arc[0]) if arc else run)  # type: ignore[arg-type]
    return ExecutionState(tokens=made, fired=list(fired))


DIAMOND = "s>a s>b a>c b>c"


@pytest.mark.parametrize(
    ("arcs", "tokens", "fires"),
    [
        pytest.param(DIAMOND, "c:arrived b:body", None, id="waits for the other branch"),
        pytest.param(DIAMOND, "c:arrived c:arrived", "c+c", id="both are here"),
        pytest.param(DIAMOND, "c:arrived", "c", id="exclusive choice rejoins at once"),
        pytest.param(DIAMOND, "a:arrived b:arrived", "a", id="no join: each fires alone"),
        pytest.param(DIAMOND, "c:arrived b:parked", None, id="a parked token is live"),
        pytest.param(
            "s>a a>b b>a b>e", "a:arrived", "a", id="a cycle's head fires when its token comes back"
        ),
        pytest.param(
            "s>a s>b a>j b>j s>k j>k", "j:arrived k:arrived", "j", id="the upstream join goes first"
        ),
        pytest.param(
            "s>k s>j k>j j>k", "j:arrived k:arrived", "k", id="a cluster blocked by itself: playbook order"
        ),
        pytest.param(
            "s>a s>b s>d a>c b>c c>f d>f", "c:arrived f:arrived b:body", None, id="nested joins wait alike"
        ),
    ],
)
def test_synchronising_merge(arcs, tokens, fires):
    ready = next_ready(graph(arcs), state(tokens))
    got = None if ready is None else "+".join(token.step for token in ready.tokens)  # type: ignore[union-attr]
    assert got == fires


@pytest.mark.parametrize(
    ("join", "tokens", "expected"),
    [
        ("any", "c:arrived:2 b:body", Firing),
        ("2", "c:arrived:2 c:arrived:3 x:body", Firing),
        ("2", "c:arrived:2 b:body", None),
        ("all", "c:arrived:2 c:arrived:3 x:body", None),
        ("each", "c:arrived:2 b:body", Firing),
    ],
)
def test_other_joins(join, tokens, expected):
    program = graph("s>a s>b s>x a>c b>c x>c", {"c": join})
    ready = next_ready(program, state(tokens))
    assert (type(ready) if ready else None) is expected


def test_late_tokens_of_a_fired_join_end_when_its_wave_is_over():
    program = graph("s>a s>b a>c b>c", {"c": "any"})
    assert next_ready(program, state("c:arrived b:body", fired=("c",))) is None
    over = next_ready(program, state("c:arrived", fired=("c",)))
    assert isinstance(over, WaveOver) and len(over.late) == 1


def test_a_join_that_can_never_be_satisfied_is_found():
    program = graph("s>a s>b a>c b>c", {"c": "all"})
    waiting = state("c:arrived:2")
    assert next_ready(program, waiting) is None
    assert [token.step for token in stuck(program, waiting)] == ["c"]


def test_tokens_over_failure_arcs_do_not_synchronise():
    lone = state("c:arrived b:body")
    lone.tokens[1].sync = False
    ready = next_ready(graph(DIAMOND), lone)
    assert isinstance(ready, Firing) and len(ready.tokens) == 1
