import { expect, test, vi } from "vitest";

import { inWorker } from "./useLayout";

class FakeWorker {
  static readonly all: FakeWorker[] = [];
  onmessage: (event: unknown) => void = () => undefined;
  onerror: () => void = () => undefined;
  asked: { id: number }[] = [];
  constructor() {
    FakeWorker.all.push(this);
  }
  postMessage(message: { id: number }) {
    this.asked.push(message);
  }
  terminate() {}
}

test("a worker that cannot run is an error, and is started again for the next graph", async () => {
  vi.stubGlobal("Worker", FakeWorker);
  const chart = { nodes: [], arcs: [], entry: null, final: null };
  const failed = inWorker(chart);
  FakeWorker.all[0]?.onerror();
  await expect(failed).rejects.toThrow("The graph cannot be laid out.");
  const laid = inWorker(chart);
  const second = FakeWorker.all[1];
  second?.onmessage({ data: { id: second.asked[0]?.id, layout: { a: { x: 0, y: 0 } } } });
  expect(await laid).toEqual({ a: { x: 0, y: 0 } });
});
