"""What the settings of a worker say about the confinement of its tasks."""

from __future__ import annotations

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskSettings
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.process import TaskLimits
from noetl.kinds.support.given_folders import settled


def limits_of(settings: TaskSettings) -> TaskLimits:
    return TaskLimits(
        settings.python_memory_bytes,
        settings.output_max_bytes,
        settings.task_disk_bytes,
        settings.task_processes,
    )


def places_of(settings: TaskSettings, libraries: str = "") -> Places:
    """Return what code may open.

    Raises TaskError(code="task_folder") where a folder that is given leads to another place than it did.
    """
    for folder in settings.task_folders:
        if settled(folder, settings.task_folders) is None:
            raise TaskError(
                f"the folder {folder!r}, which is given to tasks, leads to another place than it did",
                kind="storage_access",
                code="task_folder",
                hint="it is named by --task-folder, or NOETL_TASK_FOLDERS; a link or folder on the way to it was changed",
            )
    return Places(settings.data_dirs, settings.task_folders, settings.hidden_dirs, libraries)
