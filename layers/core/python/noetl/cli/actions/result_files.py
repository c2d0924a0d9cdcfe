"""``noetl result --save``: the files of a result, in a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.adapters.embedded.files import PartFile
from noetl.cli.client.protocol import Place
from noetl.cli.render.output import note
from noetl.domain.errors import InvalidInputError
from noetl.domain.results.references import format_of
from noetl.ports.results import ResultStore
from noetl.services.queries.read_execution import resolve_with
from noetl.services.results.artifacts import CHUNK, TaskArtifacts
from noetl.services.results.hydration import make_hydrate

_SUFFIXES = {"jsonl": ".jsonl", "csv": ".csv", "parquet": ".parquet", "text": ".txt", "bytes": ".bin"}


def saved(place: Place, execution_id: int, folder: Path) -> Any:
    """The result; in the place of each file ``{file, bytes, content_type}``.

    Raises InvalidInputError where nothing can be written.
    """
    value, results = place.parts(execution_id)
    files = _Files(results, folder)
    found = resolve_with(value, files.read)
    if not files.names:
        note("the result holds no files")
    return found


class _Files:
    """Files are called by the step that made them; one that is there already is replaced."""

    def __init__(self, results: ResultStore, folder: Path) -> None:
        self._results = results
        self._hydrate = make_hydrate(results, cache_bytes=0)
        self._folder = folder
        self.names: set[str] = set()

    def read(self, ref: Mapping[str, Any]) -> Any:
        form = format_of(ref)
        if form == "json":
            return self._hydrate(ref)
        path = self._folder / self._name(str(ref["ref"]), _SUFFIXES.get(form, ".bin"))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            size = self._write(ref, path)
        except OSError as error:
            raise InvalidInputError(
                f"{path} cannot be written: {error.strerror or error}", code="file_not_written"
            ) from error
        return {"file": str(path), "bytes": size, "content_type": ref.get("meta", {}).get("content_type")}

    def _write(self, ref: Mapping[str, Any], path: Path) -> int:
        size = 0
        part = PartFile(path)
        try:
            with TaskArtifacts(self._results, 0, "", max_bytes=1 << 62).open(ref) as stream:
                while data := stream.read(CHUNK):
                    part.write(data)
                    size += len(data)
            part.replace()
        finally:
            part.drop()
        path.chmod(0o644)
        return size

    def _name(self, uri: str, suffix: str) -> str:
        step = (
            re.sub(r"[^\w.-]", "_", uri.rpartition("/result/")[2].partition("/")[0]).lstrip(".") or "result"
        )
        name, number = f"{step}{suffix}", 1
        while name in self.names:
            number += 1
            name = f"{step}-{number}{suffix}"
        self.names.add(name)
        return name
