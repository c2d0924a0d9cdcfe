/** The layout of a graph, computed once per graph in a worker. */
import { useQuery } from "@tanstack/react-query";

import type { Flowchart } from "./flowchart";
import type { Layout } from "./sizes";

let worker: Worker | null = null;
let asked = 0;
const waiting = new Map<number, (layout: Layout) => void>();

function inWorker(chart: Flowchart): Promise<Layout> {
  worker ??= startWorker();
  const id = ++asked;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    worker?.postMessage({ id, chart });
  });
}

function startWorker(): Worker {
  const started = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  started.onmessage = ({ data }: MessageEvent<{ id: number; layout: Layout }>) => {
    waiting.get(data.id)?.(data.layout);
    waiting.delete(data.id);
  };
  return started;
}

/** `identity` names the graph: the same name has the same nodes and arcs. */
export function useLayout(identity: string, chart: Flowchart) {
  return useQuery({ queryKey: ["layout", identity], queryFn: () => inWorker(chart), staleTime: Infinity, gcTime: Infinity });
}
