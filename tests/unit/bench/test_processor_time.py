"""Processor time of a list of processes, by what they do."""

from __future__ import annotations

import os

from tests.bench.speed.processor_time import Process, processes, seconds


def test_each_process_counts_once_and_for_what_it_does():
    listed = {
        1: Process("p", 0, 900.0, 900.0, "init"),
        10: Process("p", 1, 4.0, 7.0, "python bench"),
        11: Process("p", 10, 2.0, 0.5, "python -m noetl.runtime.local.worker_process.main"),
        12: Process("p", 11, 0.25, 0.125, "python guest"),
        13: Process("p", 10, 1.0, 0.0, "python step_server.py"),
        20: Process("p", 1, 0.5, 0.25, "postgres -D"),
        21: Process("p", 20, 3.0, 0.0, "postgres: idle"),
        30: Process("p", 1, 50.0, 0.0, "python another"),
    }
    assert seconds(listed, 10, 20) == {
        "engine": 4.0,
        "workers": 2.0,
        "tasks": 0.5 + 0.25 + 0.125,
        "called": 1.0,
        "postgres": 0.5 + 0.25 + 3.0,
    }


def test_this_process_is_in_the_list_where_there_is_one():
    found = processes()
    assert not found or found[os.getpid()].parent == os.getppid()
