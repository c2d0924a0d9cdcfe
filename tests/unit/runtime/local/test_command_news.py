"""Requests of workers that wait for commands: each command wakes one of them, and no command is lost on a request that ends."""

from __future__ import annotations

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


def test_nothing_waits_where_the_process_ends() -> None:
    news = CommandNews()
    with news.expect("io") as before:
        news.release()
        assert before(60.0) is True
        with news.expect("io") as after:
            assert after(60.0) is True
