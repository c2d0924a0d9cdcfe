"""Summary of a finished loop for the main lane.

The engine reads outcomes in pages and folds them in index order. Results stay inline while they fit; otherwise they become a manifest of
parts in the result store, so that memory stays flat.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.events import LoopDone, LoopSummary
from noetl.domain.loop_resume import indexes
from noetl.domain.outcomes.outcomes import ErrorInfo, OutcomeStatus, Patch, Target
from noetl.domain.outcomes.work import calls_made
from noetl.domain.patches.scope_patches import PatchBuffer
from noetl.domain.results.manifests import manifest
from noetl.domain.results.paged_list import PART_BYTES
from noetl.domain.results.references import make_ref, ref_uri, result_name
from noetl.domain.results.retention import KeptResult, lifetime
from noetl.engine.callbacks import CLOSING
from noetl.engine.folds.slots import error_view
from noetl.ports.executions.execution_store import LoopProgress
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.loop_redrive import chain, outcomes
from noetl.services.support.parallel_puts import ParallelPuts

PAGE = 1000
"""Results in one part of a manifest."""


class Brief(msgspec.Struct, frozen=True):
    """The fields of an Outcome that folding a loop reads."""

    status: OutcomeStatus
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorInfo | None = None
    patches: list[Patch] = []
    route: list[Target] | None = None
    meta: dict[str, Any] = {}


BRIEF = codec.decoder(Brief)


def _brief(data: bytes) -> Brief:
    return codec.decode_as(BRIEF, data)


def _listed(values: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"


def fold_loop(event: LoopDone, deps: EngineDeps) -> LoopDone:
    """Return ``event`` with its summary filled in; unchanged when the loop run is unknown."""
    rows = chain(deps.store, event.execution_id, event.run, event.round)
    if not rows:
        return event
    runs = sorted({row.run for row in rows})
    counted = {(one.run, one.round): one for one in deps.store.loop_progress(event.execution_id, runs)}
    if any((row.run, row.round) not in counted for row in rows):
        return event  # This process remembers the loop of an execution that retention has removed.
    levels = [counted[row.run, row.round] for row in rows]
    with ParallelPuts(deps.results) as puts:
        fold = _Fold(event, rows[-1].total, levels, deps, puts)
        if rows[0].again is not None:
            fold.called = frozenset(indexes(rows[0].picked))
        for outcome in outcomes(deps.store, event.execution_id, rows, read=_brief):
            fold.add(*outcome)
        summary = fold.summary()
    return msgspec.structs.replace(event, summary=summary)


class _Fold:
    """The fold of one loop.

    ``levels``: the loop run and those it continues. What items of those wrote may be in the context already.
    """

    def __init__(
        self,
        event: LoopDone,
        total: int,
        levels: Sequence[LoopProgress],
        deps: EngineDeps,
        puts: ParallelPuts,
    ) -> None:
        self.puts = puts
        self.event = event
        self.total = total
        self.issued = levels[0].issued
        self.deps = deps
        self.inline = sum(level.size for level in levels) <= deps.limits.inline_bytes
        self.done = self.failed = self.calls = 0
        self.called: Container[int] | None = None
        """Items that were called in this round; None: all of them."""
        self.values: list[bytes] = []
        """Results as JSON: what is stored as it came is never decoded."""
        self.pending = 0
        """Bytes of them."""
        self.parts: list[dict[str, Any]] = []
        self.size = 0
        self.patches = PatchBuffer()
        self.route: tuple[int, list[Target]] | None = None
        self.error: tuple[int, ErrorInfo] | None = None
        self.called_off = 0
        """Items that were not waited for any more when the loop closed: no failures of their own."""
        self.value: tuple[bool, Any] = (False, None)
        program = deps.programs(event.program)
        self.replaces = program.semantics < 8
        """Whether the `result` of an item is that of the loop."""
        step = program.step(event.step)
        spec = step.result or (step.body.tasks[-1].result if step.body and step.body.tasks else None)
        self.scope = (spec and spec.scope) or "execution"
        self.life = lifetime(spec.scope, spec.ttl) if spec is not None else None
        self.kept: list[KeptResult] = []

    def add(self, index: int, outcome: Brief, applied: bool) -> None:
        bad = outcome.status == "error"
        self.failed, self.done = self.failed + bad, self.done + (not bad)
        if self.called is None or index in self.called:
            self.calls += calls_made(outcome.meta)
        if bad and outcome.error is not None:
            value = codec.encode({"error": error_view(outcome.error)})
            if outcome.error.code == CLOSING:
                self.called_off += 1
            else:
                self.error = self.error or (index, outcome.error)
        else:
            value = bytes(outcome.result)
        self.values.append(value)
        self.pending += len(value) + 1
        if outcome.route is not None and self.route is None:
            self.route = (index, outcome.route)
        if self.replaces and outcome.meta.get("result_action"):
            self.value = (True, codec.decode(bytes(outcome.result)))
        if not applied:
            self.patches.add(outcome.patches)
        if not self.inline and (len(self.values) >= PAGE or self.pending >= PART_BYTES):
            self._spill()

    def _spill(self) -> None:
        encoded = _listed(self.values)
        uri, _ = self._put(f"part:{len(self.parts)}", encoded)
        self.parts.append(
            {
                "ref": uri,
                "store": self.deps.results.name,
                "sha256": hashlib.sha256(encoded).hexdigest(),
                "count": len(self.values),
                "bytes": len(encoded),
            }
        )
        self.size += len(encoded)
        self.values, self.pending = [], 0

    def _put(self, what: str, encoded: bytes) -> tuple[str, dict[str, Any]]:
        """Store a part of the loop's result, with the lifetime that the step sets."""
        event = self.event
        key = f"loop:{event.round}:{what}:{hashlib.sha256(encoded).hexdigest()}"
        uri, meta = result_name(event.execution_id, event.step, event.run, key, self.life)
        self.puts.put(uri, encoded)
        if self.life is not None:
            tier = self.deps.limits.tier
            self.kept.append(KeptResult(uri, tier, event.step, len(encoded), *self.life))
        return uri, meta

    def _results(self) -> Any:
        if self.inline:
            return codec.decode(_listed(self.values))
        if self.values:
            self._spill()
        encoded = codec.encode(manifest(self.parts))
        uri, meta = self._put("manifest", encoded)
        return make_ref(
            uri,
            store=self.deps.limits.tier,
            size=self.size,
            sha256=hashlib.sha256(encoded).hexdigest(),
            value={"count": sum(part["count"] for part in self.parts)},
            scope=self.scope,
            ttl=self.life[1] if self.life else None,
            extra_meta={**meta, "parts": len(self.parts)},
        )

    def summary(self) -> LoopSummary:
        return LoopSummary(
            total=self.total,
            issued=self.issued,
            done=self.done,
            failed=self.failed - self.called_off,
            results=self._results(),
            patches=self._patches(),
            route=self.route[1] if self.route else None,
            error=self.error[1] if self.error else None,
            has_value=self.value[0],
            value=self.value[1],
            kept=tuple(self.kept),
            calls=self.calls,
        )

    def _patches(self) -> list[Patch]:
        """Combine the patches; a value above the inline limit is kept in the result store.

        Such values are rows that ``collect`` gathered.
        """
        return [self._shrink(number, patch) for number, patch in enumerate(self.patches.combined())]

    def _shrink(self, number: int, patch: Patch) -> Patch:
        encoded = codec.encode(patch.value)
        if len(encoded) <= self.deps.limits.inline_bytes or patch.op not in ("set", "replace", "extend"):
            return patch
        digest = hashlib.sha256(encoded).hexdigest()
        event = self.event
        key = f"loop:{event.run}:{event.round}:patch:{number}:{digest}"
        uri = ref_uri(event.execution_id, event.step, key)
        self.deps.results.put(uri, encoded)
        ref = make_ref(
            uri,
            store=self.deps.limits.tier,
            size=len(encoded),
            sha256=digest,
            value=patch.value,
            encoded=encoded,
        )
        return Patch(patch.scope, patch.name, ref, patch.op)
