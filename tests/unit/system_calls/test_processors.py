"""The processors that a process may use are those of its affinity and of its control groups' quotas."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from noetl.system_calls import processors
from noetl.system_calls.processors import count_processors, quota
from tests.parts import over

UNIFIED, OLDER = "0::/pod/app\n", "9:memory:/x\n3:cpu,cpuacct:/docker/5f\n0::/\n"


@pytest.mark.parametrize(
    ("own", "files", "allowed"),
    [
        (UNIFIED, {"pod/app/cpu.max": "150000 100000\n"}, 1.5),
        (UNIFIED, {"pod/app/cpu.max": "max 100000\n", "pod/cpu.max": "200000 100000\n"}, 2),
        (UNIFIED, {"cpu.max": "50000 100000\n"}, 0.5),
        (UNIFIED, {"pod/app/cpu.max": "max 100000\n"}, math.inf),
        (UNIFIED, {"pod/app/cpu.max": "what is this\n", "other/cpu.max": "100000 100000\n"}, math.inf),
        (
            OLDER,
            {"cpu,cpuacct/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
            2.5,
        ),
        (OLDER, {"cpu,cpuacct/docker/5f/cpu.cfs_quota_us": "-1\n"}, math.inf),
        (OLDER, {"cpu,cpuacct/cpu.cfs_quota_us": "1000\n", "cpu,cpuacct/cpu.cfs_period_us": "0\n"}, math.inf),
        ("no line of Linux\n" + UNIFIED, {"pod/app/cpu.max": "150000 100000\n"}, 1.5),
        ("", {}, math.inf),
        (None, {}, math.inf),
    ],
)
def test_the_quota_is_the_least_of_the_groups_around_a_process(tmp_path: Path, own, files, allowed):
    if own is not None:
        (tmp_path / "own").write_text(own)
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert quota(tmp_path / "groups", tmp_path / "own") == allowed


@over(
    ("machine", "affinity", "allowed", "found"),
    [
        (64, 64, math.inf, 64),
        (64, 3, math.inf, 3),
        (64, 64, 1.5, 2),
        (64, 64, 0.1, 1),
        (2, 2, 8.0, 2),
        (None, 1, math.inf, 1),
    ],
)
def test_it_counts_what_the_machine_the_affinity_and_the_quota_leave(
    monkeypatch, machine, affinity, allowed, found
):
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(affinity)), raising=False)
    monkeypatch.setattr(processors, "quota", lambda *paths: allowed)
    assert count_processors.__wrapped__() == found
