"""The task sequence of one command.

``machine`` is a pure machine over outcomes; ``inline`` drives it for control kinds.
"""

from noetl.pipeline.children import ChildIds
from noetl.pipeline.inline import declared_workload, item_of, run_inline, stage_pipeline
from noetl.pipeline.machine import PipelineRun
from noetl.pipeline.requests import CallCache, Finish, Op, RunTask, TaskOutcome
from noetl.pipeline.surroundings import Item, Surroundings

__all__ = [
    "CallCache",
    "ChildIds",
    "Finish",
    "Item",
    "Op",
    "PipelineRun",
    "RunTask",
    "Surroundings",
    "TaskOutcome",
    "declared_workload",
    "item_of",
    "run_inline",
    "stage_pipeline",
]
