import { afterEach, expect, test, vi } from "vitest";

import { readReference } from "./references";

afterEach(() => vi.unstubAllGlobals());

function link(compression: string | null = null) {
  return { ref: "noetl://execution/1/result/a/1", url: "/api/downloads/x", size: null, sha256: null, seconds: 60, compression };
}

/** Answer each request with these pieces, one after another; count those that were taken. */
function answering(pieces: Iterable<Uint8Array>, status = 200) {
  const taken = { pieces: 0, ended: false };
  const from = pieces[Symbol.iterator]();
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const { done, value } = from.next();
      if (done) return controller.close();
      taken.pieces += 1;
      controller.enqueue(value);
    },
    cancel() {
      taken.ended = true;
    },
  });
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(body, { status })));
  return taken;
}

const text = (value: string) => new TextEncoder().encode(value);

test("a value comes in pieces that cut its characters, with its long integers", async () => {
  const bytes = text('{"name": "Zürich", "id": 123456789012345678901}');
  answering([bytes.slice(0, 12), bytes.slice(12)]);
  expect(await readReference(link())).toEqual({ name: "Zürich", id: 123456789012345678901n });
});

test("a compressed value is unpacked", async () => {
  const packed = new Blob(['{"rows": 3}']).stream().pipeThrough(new CompressionStream("gzip"));
  answering([new Uint8Array(await new Response(packed).arrayBuffer())]);
  expect(await readReference(link("gzip"))).toEqual({ rows: 3 });
});

test("a gigabyte is not read to its end", async () => {
  function* gigabyte() {
    for (let at = 0; at < 1_000; at++) yield new Uint8Array(1_000_000);
  }
  const taken = answering(gigabyte());
  await expect(readReference(link())).rejects.toThrow("longer than 10 MB; download it");
  expect(taken.pieces).toBeLessThan(20);
  expect(taken.ended).toBe(true);
});

test("what unpacks to a gigabyte is not unpacked to its end", async () => {
  const packed = new Blob([new Uint8Array(30_000_000)]).stream().pipeThrough(new CompressionStream("gzip"));
  answering([new Uint8Array(await new Response(packed).arrayBuffer())]);
  await expect(readReference(link("gzip"))).rejects.toThrow("longer than 10 MB; download it");
});

test("a file that is no JSON, and a link that is over, say what to do", async () => {
  answering([new Uint8Array([0x50, 0x41, 0x52, 0x31, 0xff])]);
  await expect(readReference(link())).rejects.toThrow("no JSON, but a file");
  answering([text("gone")], 410);
  await expect(readReference(link())).rejects.toThrow("answered 410");
});
