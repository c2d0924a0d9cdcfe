"""Locks say exactly what is installed, and nothing in them steers pip."""

from __future__ import annotations

import pytest

from noetl.domain.text.lock_text import (
    LockError,
    Pin,
    lock_text,
    merged,
    misfit,
    read_lock,
    read_requirement,
)
from tests.parts import over

HASH = "a" * 64
OTHER = "b" * 64
PIN = f"colours==1.0 --hash=sha256:{HASH}"


def required(*texts):
    return [read_requirement(text) for text in texts]


def test_a_lock_is_read_as_it_was_written():
    pins = (Pin("colours", "1.0", (HASH, OTHER)), Pin("shades", "3!2.0+local.1", (HASH,)))
    wanted = required("Colours[Dark, all]>=1, <2", "shades ; python_version >= '3.11'")
    lock = read_lock(lock_text(wanted, reversed(pins)))
    assert lock.pins == pins
    assert lock.requires == ("colours[all,dark]<2,>=1", 'shades; python_version >= "3.11"')
    assert misfit(wanted, lock) == ""


@over(
    "text",
    [
        "--index-url https://example.com",
        "-e .",
        "colours @ https://example.com/colours.whl",
        "https://example.com/colours.whl",
        "./colours.whl",
        PIN,
        "colours==$VERSION",
        "colours==1.0\n-r other.txt",
        "colours=1.0",
        "",
    ],
)
def test_what_is_no_requirement(text):
    assert read_requirement(text) is None


@over(
    ("line", "problem"),
    [
        ("--extra-index-url https://example.com", "line 2: "),
        ("colours==1.0", "line 2: 'colours==1.0' is not"),
        (PIN.replace("==", ">="), "line 2: "),
        (f"{PIN} --no-binary=colours", "line 2: "),
        (PIN.replace("1.0", "${VERSION}"), "line 2: "),
        ("colours==1.0 --hash=md5:" + "a" * 32, "line 2: "),
        (f"{PIN}\n{PIN}", "line 3: colours is pinned twice"),
        ("# a comment\ncolours==1.0 \\", "line 3: the entry has no end"),
        (f"colours==1.0 \\\n# hidden\n --hash=sha256:{HASH}", "line 2: "),
    ],
)
def test_a_lock_that_would_steer_pip_is_refused(line, problem):
    with pytest.raises(LockError) as refused:
        read_lock(f"# noetl lock 1\n{line}")
    assert str(refused.value).startswith(problem)


def test_another_file_is_no_lock():
    with pytest.raises(LockError):
        read_lock(PIN)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (["colours==1.*", "shades"], "it was made without shades"),
        (["colours==2.*"], "it was made without colours==2.*"),
        ([], "it was made with colours==1.*, which is not required"),
    ],
)
def test_a_lock_for_other_requirements_does_not_fit(wanted, reason):
    lock = read_lock(lock_text(required("colours==1.*"), [Pin("colours", "1.0", (HASH,))]))
    assert misfit(required(*wanted), lock) == reason


def test_a_requirement_without_a_pin_does_not_fit():
    wanted = required("colours", "shades; sys_platform == 'win32'")
    assert misfit(wanted, read_lock(lock_text(wanted, []))) == "it does not pin colours"


def test_platforms_share_versions_and_add_their_hashes():
    here, there = Pin("colours", "1.0", (OTHER,)), Pin("colours", "1.0", (HASH,))
    assert merged([{"colours": here}, {"colours": there}]) == [Pin("colours", "1.0", (HASH, OTHER))]
    with pytest.raises(LockError, match=r"different versions of colours: 1.0, 2.0"):
        merged([{"colours": here}, {"colours": Pin("colours", "2.0", (HASH,))}])
