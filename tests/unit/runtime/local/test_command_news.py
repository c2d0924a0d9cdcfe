"""Requests of workers that wait for commands: each command wakes one of them, and no command is lost on a request that ends."""

from __future__ import annotations

import pytest

from noetl.runtime.local.command_news import CommandNews


def test_each_command_wakes_the_oldest_request_of_its_pool() -> None:
    news = CommandNews()
    with news.expect("io") as first, news.expect("io") as second, news.expect("cpu") as other:
        news.offer("io")
        assert (first.woken, second.woken, other.woken) == (True, False, False)
        assert first(0.0) is False and not first.woken
        news.offer("io", 2)
        assert first.woken and second.woken, "the first waits again, behind the second"
        news.offer("none")


def test_a_request_that_ends_hands_on_what_it_was_woken_for() -> None:
    news = CommandNews()
    with news.expect("io") as second:
        with news.expect("io") as first:
            second(0.0)
            news.offer("io")
            news.offer("io")
            assert first.woken and second.woken
            second(0.0)
            assert not second.woken
        assert second.woken
    assert not news._waiting


def test_a_request_that_finds_nothing_wakes_the_next_one_and_each_command_wakes_one_once() -> None:
    news = CommandNews()
    with news.expect("io") as full, news.expect("io") as other:
        news.offer("io")
        full(0.0)
        full(0.0)  # its look has found nothing
        assert other.woken and not full.woken
        other(0.0)
        other(0.0)
        assert not (other.woken or full.woken), "both have looked"


def test_a_request_that_fails_wakes_the_next_one() -> None:
    news = CommandNews()
    with news.expect("io") as first, news.expect("io") as second:
        with pytest.raises(ValueError, match="gone"), news.expect("io") as failed:
            for one in (first, second):
                one(0.0)
            news.offer("io", 3)
            for one in (first, second, failed):
                one(0.0)
            raise ValueError("gone")
        assert first.woken and not second.woken


def test_nothing_waits_where_the_process_ends() -> None:
    news = CommandNews()
    with news.expect("io") as before:
        news.release()
        assert before(60.0) is True
        with news.expect("io") as after:
            assert after(60.0) is True
