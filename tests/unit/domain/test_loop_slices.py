"""Which item of a slice goes on with what its turn was suspended with: one rule for the store that gives it out and the worker that runs it."""

from __future__ import annotations

import msgspec

from noetl.adapters.loops import resume
from noetl.domain import codec
from noetl.domain.commands import Command, LoopSlice
from noetl.domain.outcomes.outcomes import Outcome
from tests.parts import over


@over(("done", "continued"), [((), 2), ((3,), 2), ((2,), None), ((2, 3), None)])
def test_only_the_first_item_of_a_turn_goes_on_where_it_was_suspended(done, continued):
    piece = LoopSlice(1, 2, 5, 5, "item", "sequential")
    command = Command(7, "1.r1.0", 1, "s", "p", "io", machine={"at": 1}, loop=piece)
    given = resume(command, [(index, codec.encode(Outcome("ok"))) for index in done])
    assert given.loop is not None
    assert given.loop.continued == msgspec.structs.replace(piece, skip=done).continued == continued
    assert (given.machine is None) is (continued is None)
