"""Facts as rows of history keep them."""

from __future__ import annotations

from noetl.adapters.postgres.executions.fact_rows import plain, short
from noetl.domain.facts import facts as f
from noetl.domain.facts.facts import encode_facts
from tests.parts import over

DONE = f.CallDone(9, "s8", result={"value": [[9]]})


def row(*first, run=9, step="s8", targets=((10, "s9", 8),), args=None, command="10"):
    """Facts of a step that is done, and of the steps that follow it."""
    arrivals = tuple(f.Arrival(run_, name, arc, args=args or {}) for run_, name, arc in targets)
    entered = [
        fact
        for run_, name, _ in targets
        for fact in (f.StepEntered(run_, name), f.CommandIssued(run_, name, command, "python"))
    ]
    leaving = [f.StepExited(run, step), f.NextEvaluated(run, step, arrivals)]
    return encode_facts([*(first or [DONE]), *leaving, *entered])


SHORT = {
    "a step of a chain": row(),
    "with more facts before": row(f.CallDone(9, "s8", result="é"), f.ContextChanged([], 9, "s8")),
    "a lone surrogate": row(f.CallDone(9, "s8", result="half \ud800")),
    "a list of lists": row(f.CallDone(9, "s8", result=[[1, "a", 2, "b"]])),
    "a text that looks like a row": row(f.CallDone(9, "s8", result=row().decode())),
    "a value that looks like one": row(f.CallDone(9, "s8", result=f.decode_facts(row()))),
    "of a loop": row(f.LoopFinished(9, "s8", 0, 2, 2, 0, results=[1, 2])),
    "large numbers": row(f.CallDone(10**17, "s8"), run=10**17),
}
WHOLE = {
    "nothing follows": encode_facts([DONE, f.StepExited(9, "s8"), f.NextEvaluated(9, "s8", ended=True)]),
    "several steps follow": row(targets=((10, "s9", 8), (11, "s10", 9))),
    "a step follows over no arc": row(targets=((10, "s9", -1),)),
    "arguments": row(args={"a": 1}),
    "a command with a name of its own": row(command="10.x"),
    "facts of another run": row(run=8),
    "facts of another step": row(step="s7"),
    "a name with a bracket": row(targets=((10, "s[9", 8),)),
    "no facts": b"[]",
    "an outcome": b'{"status":"success","result":[[1]]}',
    "a damaged row": b'[[1,"a",2,"b"]]',
    "another list": b'[{"name":"call.done","run":9,"step":"s8"},[[10,"s9",8,"python"]]]',
}


@over("facts", SHORT.values(), ids=list(SHORT))
def test_what_follows_from_the_first_fact_is_kept_once(facts):
    kept = short(facts)
    assert kept.endswith(b',[10,"s9",8,"python"]]') and len(kept) <= len(facts) - 200
    assert plain(kept) == facts


@over("facts", WHOLE.values(), ids=list(WHOLE))
def test_other_rows_are_kept_as_they_are(facts):
    assert short(facts) == plain(facts) == facts
