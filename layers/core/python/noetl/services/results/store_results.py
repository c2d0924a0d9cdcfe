"""The writer of large values to the result store, which replaces them by references."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.outcomes.outcomes import Outcome, Patch
from noetl.domain.outcomes.report_checks import short_error
from noetl.domain.results.manifests import entries, is_manifest, manifest, part_of
from noetl.domain.results.references import PREVIEW_LIMIT, is_ref, make_ref, result_name, select
from noetl.domain.results.result_bytes import stored_as
from noetl.domain.results.retention import KeptResult, lifetime, mentioned
from noetl.domain.sizes.table import INLINE_MOST
from noetl.dsl.program import ResultSpec
from noetl.ports.results import ResultStore

MAX_INLINE = INLINE_MOST.value
"""Most bytes of a value inside a message, even when ``inline_max_bytes`` allows more: a message has to hold it."""
MAX_REFERENCE = 4 * MAX_INLINE
"""Most bytes of a reference, with the longest preview there is."""
SMALL = 512
"""Texts and containers below this are never worth an object of their own."""
_SPILLED = "$stored"


class Keeper:
    """The store of one command's large values.

    Raises InfrastructureError when the store cannot be reached.
    """

    def __init__(
        self, results: ResultStore, execution_id: int, run: int, step: str, inline_bytes: int, max_bytes: int
    ) -> None:
        self._results = results
        self._execution_id = execution_id
        self._run = run
        self._step = step
        self._inline = inline_bytes
        self._max = max_bytes
        self._noted: dict[str, KeptResult] = {}
        self._reaches: set[int] = set()

    def keep(self, value: Any, spec: ResultSpec | None = None, budget: int | None = None) -> Any:
        """Return ``value`` itself when it may travel, else store it and return its reference.

        ``budget``: bytes left in the message. Raises TaskError(code="result_too_large") above the deployment's limit.
        """
        if _is_scalar(value) or _is_reference(value):
            return value
        if is_manifest(value):
            return self._whole(value, spec)
        if isinstance(value, dict) and value.get("kind") == "loop_result" and "results" in value:
            kept = self.keep(value["results"], spec, budget)
            return value if kept is value["results"] else {**value, "results": kept}
        limit = self._limit(spec)
        if budget is not None:
            limit = min(limit, max(budget, SMALL))
        encoded = codec.encode(value)
        if len(encoded) <= limit:
            return value
        return self._store(value, encoded, spec)

    def travels(self, value: Any) -> bool:
        """Return whether a value is small enough to stay where it is."""
        if is_manifest(value):
            return False
        return _is_scalar(value) or _is_reference(value) or len(codec.encode(value)) <= self._inline

    def reference(self, value: Any, spec: ResultSpec | None) -> Any:
        """Return ``output.ref``: the URI of a stored large result; None for one that travels."""
        kept = self.keep(value, spec)
        return kept["ref"] if is_ref(kept) else None

    def _limit(self, spec: ResultSpec | None) -> int:
        wanted = spec.inline_max_bytes if spec is not None else None
        if spec is not None and spec.scope == "permanent":
            wanted = 0
        return self._inline if wanted is None else min(wanted, MAX_INLINE)

    def note(self, kept: KeptResult) -> None:
        """Note a stored result whose retention differs from its execution's."""
        self._noted[kept.ref] = kept

    def add_noted(self, outcome: Outcome) -> Outcome:
        """Add to ``outcome`` what the engine has to know of results stored since the last call."""
        if not self._noted and not self._reaches:
            return outcome
        kept, reaches = tuple(self._noted.values()), tuple(sorted(self._reaches))
        self._noted, self._reaches = {}, set()
        return msgspec.structs.replace(outcome, kept=kept, reaches=reaches)

    def part(self, value: Any, spec: ResultSpec | None) -> dict[str, Any]:
        """Store a piece of a growing value; return its entry in the manifest."""
        return part_of(self._store(value, codec.encode(value), spec), len(value))

    def stored(self, value: Any) -> dict[str, Any]:
        """Store a value of any size, and return its reference.

        Raises TaskError(code="result_too_large").
        """
        return self._store(value, codec.encode(value), None)

    def _whole(self, value: Mapping[str, Any], spec: ResultSpec | None) -> dict[str, Any]:
        """Store the manifest of a value that has grown; return its reference."""
        parts = list(value["parts"])
        if value.get("rest"):
            parts.append(self.part(value["rest"], spec))
        made = manifest(parts, value.get("strategy", "concat"), str(value.get("merge_path") or ""))
        plain = None if spec is None else msgspec.structs.replace(spec, compression=None, select=())
        joined = made["strategy"] in ("append", "concat")
        ref = self._store({"count": entries(made)} if joined else {}, codec.encode(made), plain)
        ref["size"] = ref["meta"]["bytes"] = ref["preview"]["bytes"] = made["total_bytes"]
        ref["meta"]["parts"] = made["total_parts"]
        ref["keys"] = [] if joined else None
        return ref

    def _store(self, value: Any, encoded: bytes, spec: ResultSpec | None) -> dict[str, Any]:
        if len(encoded) > self._max:
            raise TaskError(
                f"a result of {len(encoded)} bytes; at most {self._max} are kept",
                kind="storage_quota",
                code="result_too_large",
                hint="return less, or write it to a table or file and return where it is",
            )
        requested = spec.compression if spec is not None else None
        data, compression = stored_as(encoded, requested)
        tier = self._results.choose(len(data), spec.store if spec is not None else None)
        digest = hashlib.sha256(data).hexdigest()
        life = lifetime(spec.scope, spec.ttl) if spec is not None else None
        uri, meta = result_name(self._execution_id, self._step, self._run, digest, life)
        if compression is not None:
            meta |= {"compression": compression, "stored_bytes": len(data)}
        tier.put(uri, data)
        self._reaches |= mentioned(encoded, self._execution_id)
        preview = PREVIEW_LIMIT if spec is None or spec.preview_max_bytes is None else spec.preview_max_bytes
        ref = make_ref(
            uri,
            store=tier.name,
            size=len(encoded),
            sha256=digest,
            value=value,
            preview_limit=min(preview, MAX_INLINE),
            encoded=encoded,
            scope=life[0] if life else (spec and spec.scope) or "execution",
            ttl=life[1] if life else None,
            extra_meta=meta,
        )
        if life is not None:
            self.note(KeptResult(uri, tier.name, self._step, len(encoded), *life))
        for path, name in spec.select if spec is not None else ():
            found = select(value, path)
            if _is_scalar(found):
                ref["extracted"][name] = found
        return ref

    def outcome(
        self,
        outcome: Outcome,
        specs: Mapping[str, ResultSpec | None],
        spec: ResultSpec | None,
        growing: Mapping[str, Any],
    ) -> Outcome:
        """Make an outcome small enough to travel.

        ``specs``: how each task's result is kept; ``growing``: whole values of ctx lists (see ``_patch``).
        """
        kept = self.keep(outcome.result, spec)
        if not outcome.labels and not outcome.patches and outcome.error is None and kept is outcome.result:
            return outcome
        budget = MAX_INLINE - _size(kept)
        labels = {}
        for label, value in outcome.labels.items():
            own = specs.get(label)
            if value is outcome.result and (own is None or own == spec):
                labels[label] = kept
                continue
            labels[label] = self.keep(value, own, budget)
            budget -= _size(labels[label])
        patches = [self._patch(patch, growing) for patch in outcome.patches]
        return Outcome(
            outcome.status,
            kept,
            short_error(outcome.error),
            labels,
            patches,
            outcome.route,
            outcome.trace,
            None,
            outcome.meta,
        )

    def _patch(self, patch: Patch, growing: Mapping[str, Any]) -> Patch:
        """Replace opaque values by references.

        A list that grew large is written whole, when the run knows all of it.
        """
        if patch.op in ("set", "replace", "append", "first"):
            value = self.keep(patch.value)
            return patch if value is patch.value else Patch(patch.scope, patch.name, value, patch.op)
        key = f"{patch.scope}.{patch.name}"
        if patch.op == "extend" and key in growing and is_ref(self.keep(patch.value)):
            return Patch(patch.scope, patch.name, self.keep(growing[key]), "set")
        return patch

    def pack(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Store a suspended pipeline's state as an object of its own when it is large."""
        encoded = codec.encode(machine)
        if len(encoded) <= self._inline:
            return machine
        return {_SPILLED: self._store({}, encoded, None)}


def unpack(machine: dict[str, Any], hydrate: Any) -> dict[str, Any]:
    """Reverse ``Keeper.pack``. Raises TaskError(code="REFERENCE_NOT_AVAILABLE")."""
    stored = machine.get(_SPILLED)
    if stored is None:
        return machine
    found: dict[str, Any] = hydrate(stored)
    return found


def _is_scalar(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, (bool, int, float))
        or (isinstance(value, str) and len(value) <= SMALL)
    )


def _is_reference(value: Any) -> bool:
    """Return whether a value is a reference, and no larger than one is.

    A tool's result may have the shape of a reference, and hold anything.
    """
    return is_ref(value) and len(codec.encode(value)) <= MAX_REFERENCE


def _size(value: Any) -> int:
    return 8 if _is_scalar(value) else len(codec.encode(value))
