import { expect, test } from "vitest";

import { frames } from "./frames";

test("events survive any cut of the stream, and comments are signs of life", async () => {
  const text = ": hello\n\nid: 7\nevent: change\ndata: {\"topic\":\ndata: \"executions\"}\n\n:\r\n\r\nid: 8\ndata: é\n\n";
  const bytes = new TextEncoder().encode(text);
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
      controller.close();
    },
  });
  const found = [];
  for await (const frame of frames(body)) found.push(frame);
  expect(found).toEqual([
    null,
    { id: "7", event: "change", data: '{"topic":\n"executions"}' },
    null,
    { id: "8", event: "message", data: "é" },
  ]);
});
