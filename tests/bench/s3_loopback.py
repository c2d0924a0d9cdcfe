"""An S3 of one bucket for benchmarks: GetObject of the files of a folder, ListObjectsV2 of so many objects below ``objects/``.

Usage: python -m tests.bench.s3_loopback FOLDER OBJECTS   (prints its port, serves until it is ended)
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copyfileobj
from urllib.parse import parse_qs, urlsplit

LISTED = (
    "<Contents><Key>objects/{0:07}.txt</Key><LastModified>2026-11-21T00:00:00.000Z</LastModified>"
    '<ETag>"{0:032x}"</ETag><Size>{0}</Size><StorageClass>STANDARD</StorageClass></Contents>'
)
PAGE = 1000


class Bucket(BaseHTTPRequestHandler):
    folder: Path
    objects: int
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        key = parts.path.lstrip("/").partition("/")[2]
        if not key:
            self._list(int(parse_qs(parts.query).get("continuation-token", ["0"])[0]))
            return
        path = self.folder / Path(key).name
        self._head("application/octet-stream", path.stat().st_size)
        with path.open("rb") as file:
            copyfileobj(file, self.wfile)

    def _list(self, start: int) -> None:
        stop = min(start + PAGE, self.objects)
        more = stop < self.objects
        following = f"<NextContinuationToken>{stop}</NextContinuationToken>" if more else ""
        body = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{following}"
            + "".join(LISTED.format(number) for number in range(start, stop))
            + "</ListBucketResult>"
        ).encode()
        self._head("application/xml", len(body))
        self.wfile.write(body)

    def _head(self, kind: str, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    Bucket.folder, Bucket.objects = Path(sys.argv[1]), int(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    print(server.server_port, flush=True)
    server.serve_forever()
