"""What the settings of a worker say about the confinement of its tasks."""

from __future__ import annotations

from noetl.domain.kinds import TaskSettings
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.process import TaskLimits


def limits_of(settings: TaskSettings) -> TaskLimits:
    return TaskLimits(
        settings.python_memory_bytes,
        settings.output_max_bytes,
        settings.task_disk_bytes,
        settings.task_processes,
    )


def places_of(settings: TaskSettings, libraries: str = "") -> Places:
    return Places(settings.data_dirs, settings.task_folders, settings.hidden_dirs, libraries)
