"""What the kernel counts for the user of all tasks, and one task may not use up."""

from __future__ import annotations

import os
import sys

import pytest

from noetl.kinds.sandbox.layers import layers
from noetl.kinds.sandbox.noetl_guest.confine import SHARES
from noetl.kinds.sandbox.noetl_guest.namespaces import COUNTS, ENDED_FIRST, SCRATCH_FILES
from tests.integration.kinds_sandbox import hoard
from tests.integration.kinds_sandbox.test_confinement import combined, ground  # noqa: F401

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not layers().namespaces or bool(os.statvfs("/proc/sys").f_flag & os.ST_RDONLY),
    reason="no namespaces that could have limits of their own",
)


@combined(["root-", "ordinary-common_root"], left_out=["", "common_root"])
def test_a_task_leaves_enough_for_others(ground, left_out):  # noqa: F811
    """As many as it may have are left for the next one, and the kernel ends it before others that have more memory."""
    found = ground.outcome_of(hoard.__file__, left_out=left_out)
    assert all(SCRATCH_FILES - 100 < links < SCRATCH_FILES for links in found.pop("links"))
    assert found.pop("ended first") == int(ENDED_FIRST)
    assert found.pop("user namespaces") == [0, 0]
    most = dict.fromkeys(("timers", "signals"), SHARES["RLIMIT_SIGPENDING"])
    most |= {"inotify": COUNTS["inotify_instances"], "fanotify": COUNTS["fanotify_groups"]}
    assert found == {way: [number, number] for way, number in most.items()}
