"""An HTTP server whose only answer is one more than ``?value=``, after ``?pause=`` milliseconds: what ``http`` steps of benchmarks call.

Usage: python tests/bench/speed/step_server.py   (prints its address, serves on loopback until its standard input ends)
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading

VALUE, PAUSE = re.compile(rb"[?&]value=(-?\d+)"), re.compile(rb"[?&]pause=(\d+)")


class Step(asyncio.Protocol):
    """Requests without a body, one after the other on a kept connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.waiting = transport, b""

    def data_received(self, data: bytes) -> None:
        self.waiting += data
        while b"\r\n\r\n" in self.waiting:
            head, self.waiting = self.waiting.split(b"\r\n\r\n", 1)
            target = head.split(b"\r\n", 1)[0]
            found, pause = VALUE.search(target), PAUSE.search(target)
            body = b'{"value": %d}' % ((int(found[1]) if found else 0) + 1)
            answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            if pause:
                loop = asyncio.get_running_loop()
                loop.call_later(int(pause[1]) / 1000, self.transport.write, answer % (len(body), body))
            else:
                self.transport.write(answer % (len(body), body))


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Step, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    ended = asyncio.Event()

    def wait() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait, daemon=True).start()
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve())
