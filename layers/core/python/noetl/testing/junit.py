"""Results as JUnit XML, which build servers read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from noetl.testing.assertions import Finding
from noetl.testing.run_cases import CaseReport

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(files: Sequence[tuple[str, Sequence[CaseReport], str]]) -> bytes:
    """``files``: name of the test file, its cases, and why it could not be run ("" if it was)."""
    root = ElementTree.Element("testsuites")
    for name, cases, error in files:
        failed = sum(not case.passed for case in cases)
        seconds = sum(case.seconds for case in cases)
        suite = _element(
            root,
            "testsuite",
            name=name,
            tests=str(len(cases) + bool(error)),
            failures=str(failed),
            errors=str(int(bool(error))),
            time=f"{seconds:.3f}",
        )
        if error:
            broken = _element(suite, "testcase", name="(the file)", classname=name, time="0")
            _element(broken, "error", message=error.splitlines()[0]).text = _text(error)
        for case in cases:
            shown = _element(
                suite,
                "testcase",
                name=case.name,
                classname=name,
                file=name,
                line=str(case.line),
                time=f"{case.seconds:.3f}",
            )
            if not case.passed:
                lines = [line for finding in case.findings for line in finding_lines(finding)]
                _element(shown, "failure", message=lines[0]).text = _text("\n".join(lines))
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def finding_lines(finding: Finding) -> list[str]:
    """A finding as people read it."""
    message = finding.message.splitlines()
    if not (finding.expected or finding.got):
        return [
            f"{finding.where}: {message[0]}" if message else finding.where,
            *(f"  {line}" for line in message[1:]),
        ]
    lines = [f"{finding.where}", f"  expected {finding.expected}", f"  got      {finding.got}"]
    return lines + [f"  {line}" for line in message]


def _element(parent: ElementTree.Element, tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {key: _text(value) for key, value in attributes.items()})


def _text(text: str) -> str:
    """What XML cannot hold is a question mark."""
    return _NOT_XML.sub("?", text)
