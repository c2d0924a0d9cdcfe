/** The layout of a graph, computed once per graph in a worker. */
import { useQuery } from "@tanstack/react-query";

import type { Flowchart } from "./flowchart";
import type { Layout } from "./sizes";

let worker: Worker | null = null;
let asked = 0;
interface Asked {
  resolve: (layout: Layout) => void;
  reject: (reason: Error) => void;
}

const waiting = new Map<number, Asked>();

export function inWorker(chart: Flowchart): Promise<Layout> {
  worker ??= startWorker();
  const id = ++asked;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    worker?.postMessage({ id, chart });
  });
}

function startWorker(): Worker {
  const started = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  started.onmessage = ({ data }: MessageEvent<{ id: number; layout: Layout }>) => {
    waiting.get(data.id)?.resolve(data.layout);
    waiting.delete(data.id);
  };
  // Its file may be gone with another version of the server: the next one who asks starts it again.
  started.onerror = () => {
    for (const { reject } of waiting.values()) reject(new Error("The graph cannot be laid out."));
    waiting.clear();
    started.terminate();
    worker = null;
  };
  return started;
}

/** `identity` names the graph: the same name has the same nodes and arcs. */
export function useLayout(identity: string, chart: Flowchart) {
  return useQuery({ queryKey: ["layout", identity], queryFn: () => inWorker(chart), staleTime: Infinity, gcTime: Infinity });
}
