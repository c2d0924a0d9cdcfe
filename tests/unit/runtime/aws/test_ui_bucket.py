"""A deployment puts the web UI into its bucket, the page last, and takes it out with the stack."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.runtime.aws.ui_bucket import bring_ui, remove_ui


class FakeS3:
    """Buckets in memory; ``order``: keys as they were written."""

    def __init__(self, **objects: bytes) -> None:
        self.objects: dict[str, dict[str, Any]] = {name: {"Body": data} for name, data in objects.items()}
        self.order: list[str] = []

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        return {"Body": io.BytesIO(self.objects[Key]["Body"])}

    def put_object(self, Bucket: str, Key: str, **about: Any) -> None:  # noqa: N803
        assert Bucket == "files"
        self.objects[Key] = about
        self.order.append(Key)

    def delete_object(self, Bucket: str, Key: str) -> None:  # noqa: N803
        del self.objects[Key]

    def get_paginator(self, operation: str) -> FakeS3:
        return self

    def paginate(self, Bucket: str, Prefix: str) -> list[dict[str, Any]]:  # noqa: N803
        return [{"Contents": [{"Key": key} for key in self.objects if key.startswith(Prefix)]}, {}]


def zipped(**files: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return data.getvalue()


PROPERTIES = {"Bucket": "assets", "Key": "build", "Files": "files", "SignIn": '{"issuer": "https://id"}'}


def test_files_are_written_before_the_page_that_names_them() -> None:
    s3 = FakeS3(build=zipped(index_html="page", assets__a_js="code"), **{"ui/assets/old.js": b"earlier"})
    assert bring_ui(PROPERTIES, s3) == 3
    assert s3.order[-1] == "ui/index.html"
    assert "immutable" in s3.objects["ui/assets/a.js"]["CacheControl"]
    assert s3.objects["ui/assets/a.js"]["ContentType"] == "text/javascript; charset=utf-8"
    assert s3.objects["ui/index.html"]["CacheControl"] == "no-cache"
    assert json.loads(s3.objects["ui/sign-in.json"]["Body"]) == {"issuer": "https://id"}
    assert "ui/assets/old.js" in s3.objects, "a page that is open still loads its parts"
    remove_ui(PROPERTIES, s3)
    assert list(s3.objects) == ["build"]


@pytest.mark.parametrize(
    ("data", "problem"), [(b"no zip", "is not a zip"), (zipped(a_js=""), "has no index.html")]
)
def test_what_is_no_build_changes_nothing(data: bytes, problem: str) -> None:
    s3 = FakeS3(build=data)
    with pytest.raises(InvalidInputError, match=problem):
        bring_ui(PROPERTIES, s3)
    assert s3.order == []
