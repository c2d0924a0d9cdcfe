"""The build of the web UI in the bucket that CloudFront reads.

A deployment puts it there, and removes it with the stack. Files of earlier builds stay, about two megabytes each: a page that was
opened before the deployment still loads its parts.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.adapters.aws.clients import answering
from noetl.api.http.ui_files import ASSETS, HASHED, media_type
from noetl.domain.errors import InvalidInputError

UI = "Custom::NoetlUi"
PREFIX = "ui/"
"""Of the objects: the path of a page is the key of its file."""
SIGN_IN = "sign-in.json"
PAGE = "index.html"


def bring_ui(properties: Mapping[str, Any], s3: Any) -> int:
    """Put a build into its bucket, its page last; return how many files it has.

    ``properties``: Bucket and Key of the zip, Files: the bucket, SignIn: the text of ``sign-in.json``. Raises InvalidInputError and
    InfrastructureError.
    """
    bucket = str(properties.get("Files", ""))
    with answering("s3"):
        data: bytes = s3.get_object(Bucket=properties.get("Bucket", ""), Key=properties.get("Key", ""))[
            "Body"
        ].read()
    files = dict(_files(data))
    if PAGE not in files:
        raise InvalidInputError(f"the build of the web UI has no {PAGE}", hint="make ui")
    files[SIGN_IN] = json.dumps(json.loads(str(properties.get("SignIn") or "{}"))).encode()
    for name in sorted(files, key=lambda one: (one == PAGE, one)):
        with answering("s3"):
            s3.put_object(
                Bucket=bucket,
                Key=PREFIX + name,
                Body=files[name],
                ContentType=media_type(name),
                CacheControl=HASHED if name.startswith(ASSETS) else "no-cache",
            )
    return len(files)


def remove_ui(properties: Mapping[str, Any], s3: Any) -> None:
    """Empty the bucket, which goes with its stack. Raises InfrastructureError."""
    bucket = str(properties.get("Files", ""))
    with answering("s3"):
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=PREFIX)
        for key in [one["Key"] for page in pages for one in page.get("Contents", ())]:
            s3.delete_object(Bucket=bucket, Key=key)


def _files(archive: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as found:
            for entry in found.infolist():
                if not entry.is_dir():
                    yield entry.filename, found.read(entry)
    except zipfile.BadZipFile as error:
        raise InvalidInputError(f"the build of the web UI is not a zip: {error}") from error
