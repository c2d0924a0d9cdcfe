"""Which token fires next, on bare graphs: ``"a>c b>c"`` are arcs in playbook order; tokens are ``step:phase``."""

import msgspec
import pytest

from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome, Target
from noetl.domain.state import ExecutionState, Token
from noetl.dsl.program import Arc, Program, Step
from noetl.dsl.reachability import with_reachability
from noetl.engine.joins import Firing, WaveEnded, next_ready, stuck
from tests.parts import over
from tests.unit.engine.stepping import Stepping, compiled


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
            ways=sum(target == name for _, target in pairs),
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


@over(
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
    assert isinstance(over, WaveEnded) and len(over.late) == 1


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


def with_join(arcs: str, **join: str) -> Program:
    """The graph whose step ``j`` joins in the long form."""
    program = graph(arcs)
    steps = [msgspec.structs.replace(step, **join) if step.name == "j" else step for step in program.steps]
    return msgspec.structs.replace(program, hash=f"{arcs} {sorted(join.items())}", steps=tuple(steps))


@over(
    ("rest", "tokens", "fires", "opens"),
    [
        ("hold", "j:arrived:0 j:arrived:0", None, False),
        ("hold", "j:arrived:0 j:arrived:0 j:arrived:0", "1+2+3", False),
        ("hold", "j:arrived:0 j:arrived:0 j:arrived:0 j:arrived:0", "1+2+3", False),
        ("absorb", "j:arrived:0 j:arrived:0 j:arrived:0 j:arrived:0", "1+2+3", True),
        ("cancel", "j:arrived:0 j:arrived:0 a:body", None, False),
    ],
)
def test_arrivals_are_counted_over_one_arc(rest, tokens, fires, opens):
    ready = next_ready(with_join("s>a a>j", join="3", join_of="arrivals", join_rest=rest), state(tokens))
    got = "+".join(str(token.run) for token in ready.tokens) if isinstance(ready, Firing) else None
    assert got == fires
    assert fires is None or ready.opens == opens  # type: ignore[union-attr]


HOLD = {"join": "any", "join_rest": "hold"}


@pytest.mark.parametrize(
    ("tokens", "wave", "late", "over"),
    [
        pytest.param("j:arrived:3 b:body", [2], [1], False, id="a missing arc delivers: it ends there"),
        pytest.param("j:arrived:2 b:body", [2], None, None, id="the same arc again: it is held"),
        pytest.param("j:arrived:2 j:arrived:3 j:arrived:3", [2], [2], False, id="one per arc"),
        pytest.param("j:arrived:2 b:body", [2, 3], [], True, id="every arc has delivered: the wave is over"),
        pytest.param(
            "j:arrived:2", [2], [], True, id="nothing can come: the wave is over, and who is held stays"
        ),
    ],
)
def test_a_join_that_holds_lets_each_arc_deliver_once_a_wave(tokens, wave, late, over):
    waiting = state(tokens, fired=("j",))
    waiting.waves = {"j": wave}
    found = next_ready(with_join("s>a s>b a>j b>j", **HOLD), waiting)
    if late is None:
        assert found is None
    else:
        assert isinstance(found, WaveEnded)
        assert ([token.run for token in found.late], found.over) == (late, over)


def test_a_firing_that_holds_says_which_arcs_it_used():
    found = next_ready(with_join("s>a s>b a>j b>j", **HOLD), state("j:arrived:2 b:body"))
    assert isinstance(found, Firing)
    assert (found.opens, found.wave) == (True, (2,))


def test_waves_that_wait_for_each_other_do_not_wait_for_ever():
    program = graph("s>a s>b a>j b>j j>k a>k k>j", {"j": "any", "k": "any"})
    found = next_ready(program, state("j:arrived:3 k:arrived:4", fired=("j", "k")))
    assert isinstance(found, WaveEnded)
    assert (found.step.name, found.over) == ("j", True)


@pytest.mark.parametrize(
    ("arcs", "feeders"),
    [
        pytest.param("s>a s>b a>j b>j", "s a b", id="everything leads here"),
        pytest.param("s>a s>b s>x a>j b>j x>y", "a b", id="the start leads elsewhere too"),
        pytest.param("s>a s>b a>c c>j b>d d>j d>e", "a c", id="a branch with a way out"),
        pytest.param("s>a a>a a>j s>b b>j s>z", "a b", id="a branch that goes round"),
        pytest.param("s>a s>b a>j b>j j>s", "s a b", id="the join leads back"),
        pytest.param("s>a a>t t>t s>b b>j", "b", id="a circle that never comes here"),
    ],
)
def test_who_leads_to_a_join_alone(arcs, feeders):
    found = with_reachability(with_join(arcs, join="any", join_rest="cancel"))
    assert sorted(found.step("j").feeders) == sorted(feeders.split())


ROUTED = """
  - { step: start, next: [a, b] }
  - step: a
    tool: { kind: http, url: "http://api.test/a" }
    case: [{ when: "{{ event.name == 'call.done' }}", then: { next: end } }]
  - { step: b, tool: { kind: http, url: "http://api.test/b" }, next: end }
  - { step: end, spec: { join: all }, tool: { kind: http, url: "http://api.test/end" } }
"""


def test_a_target_that_no_next_of_the_step_names_is_part_of_no_merge():
    """Only a worker that does not keep to the program names one."""
    one = Stepping(compiled(ROUTED))
    one.start()
    one.answer(one.at("b")[0], Outcome("ok", route=[Target("end"), Target("end")]))
    first, second = one.at("end")
    assert (first.phase, first.arc, first.sync) == ("arrived", one.program.step("b").arcs[0].index, True)
    assert (second.phase, second.arc, second.sync) == ("body", -1, False)


def test_a_target_that_the_playbook_does_not_have_fails_the_step():
    one = Stepping(compiled(ROUTED))
    one.start()
    one.answer(one.at("a")[0], Outcome("ok", route=[Target("x" * 1000)]))
    error = one.state.error
    assert one.state.status == "failed" and error is not None
    assert (error.code, error.position) == ("unknown_step", "t.yaml:7:5")
    assert len(error.message) < 300


CHOSEN = """
  - {{ step: start, next: [a, b] }}
  - step: a
    tool: {{ kind: http, url: "http://api.test/a" }}
    next:
      arcs: [{{ step: end, when: "{{{{ outcome.status == 'error' }}}}", args: {{ a: bad }} }}, {{ step: end, args: {{ a: good }} }}]
  - {{ step: b, tool: {{ kind: http, url: "http://api.test/b" }}, next: [{{ step: end, args: {{ b: good }} }}] }}
  - {{ step: end, spec: {{ join: {join} }}, tool: {{ kind: http, url: "http://api.test/end" }} }}
"""


@pytest.mark.parametrize("join", ["sync", "all", "2"])
@pytest.mark.parametrize("a", ["good", "bad"])
def test_an_arc_that_counts_is_waited_for_on_failure_too(join, a):
    """Two arcs of one exclusive choice lead to the join: one is taken when the step is done, the other one when it failed."""
    one = Stepping(compiled(CHOSEN.format(join=join)))
    one.start()
    failed = Outcome("error", error=ErrorInfo(message="no"))
    one.answer(one.at("a")[0], failed if a == "bad" else Outcome("ok"))
    assert [token.phase for token in one.at("end")] == ["arrived"]
    one.answer(one.at("b")[0], Outcome("ok"))
    [run] = one.at("end")
    assert (run.phase, one.slots["args", str(run.run)]) == ("body", {"a": a, "b": "good"})
