/** What the API says about one execution; keys begin with its topic, so that live changes refresh them. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, read, type Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import { noteOpening } from "../../api/live/known";
import { playbookText, versionsOf } from "../playbooks/queries";

export type Execution = Schemas["ExecutionAnswer"];
export type StepRun = Schemas["StepView"];
export type HistoryEvent = Schemas["HistoryEvent"];

const at = (execution_id: string) => ({ path: { execution_id } });
const MOST_STEPS = 2_000;

/** The moment of a link that means the end of the history. */
export const END = "end";

export const executionOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "summary"],
    queryFn: async ({ client }) => {
      const summary = await read(api.GET("/api/executions/{execution_id}", { params: { ...at(id), query: { lean: true } } }));
      noteOpening(client, `execution:${id}`, summary.revision);
      return summary;
    },
  });

export const stepsOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "steps"],
    queryFn: () => read(api.GET("/api/executions/{execution_id}/steps", { params: { ...at(id), query: { limit: MOST_STEPS } } })),
  });

/** The same with what each run did and waited for. */
export const phasesOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "phases"],
    queryFn: () =>
      read(api.GET("/api/executions/{execution_id}/steps", { params: { ...at(id), query: { limit: MOST_STEPS, phases: true } } })),
  });

const ITEMS_AT_ONCE = 100;

/** The items of a loop by its step run; with `failed`, those that failed. `start` is the cursor where they begin. */
export const itemsOf = (id: string, run: number, failed: boolean, start?: string) =>
  infiniteQueryOptions({
    queryKey: ["execution", id, "items", run, failed, start],
    initialPageParam: start,
    getNextPageParam: (page: Schemas["LoopItemPage"]) => page.next ?? undefined,
    queryFn: ({ pageParam }) =>
      read(
        api.GET("/api/executions/{execution_id}/loops/{run}/items", {
          params: { path: { execution_id: id, run: String(run) }, query: { failed, after: pageParam, limit: ITEMS_AT_ONCE } },
        }),
      ),
  });

export type LoopBands = Schemas["LoopBands"];

const BANDS_EVERY_MS = 5_000;

/** A loop over time. The server counts all of its items for it, so it is read again from time to time and not with each live change. */
export const bandsOf = (id: string, { run, loop, status }: StepRun) => {
  const runs = status === "running" || status === "retrying" || status === "waiting";
  return queryOptions({
    queryKey: ["execution-bands", id, run, runs ? null : status, runs ? null : loop?.done],
    refetchInterval: runs ? BANDS_EVERY_MS : false,
    staleTime: runs ? BANDS_EVERY_MS : Infinity,
    placeholderData: keepPreviousData,
    queryFn: () =>
      read(api.GET("/api/executions/{execution_id}/loops/{run}/bands", { params: { path: { execution_id: id, run: String(run) } } })),
  });
};

export const executionGraphOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "graph"],
    queryFn: () => read(api.GET("/api/executions/{execution_id}/graph", { params: { ...at(id), query: { lean: true } } })),
  });

export type PastState = Schemas["MomentAnswer"];

/** An execution at a moment of its history, which never changes; the end of the history does. */
export const pastOf = (id: string, moment: string) =>
  queryOptions({
    queryKey: ["execution-past", id, moment],
    staleTime: moment === END ? 0 : Infinity,
    queryFn: () =>
      read(
        api.GET("/api/executions/{execution_id}/state", {
          params: { ...at(id), query: moment === END ? {} : { at: moment } },
        }),
      ),
  });

/** The values of an execution as they are now, which live changes refresh. */
export const contextNow = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "context"],
    staleTime: 0,
    queryFn: () => read(api.GET("/api/executions/{execution_id}/state", { params: at(id) })),
  });

export const analysisOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "analysis"],
    queryFn: () => read(api.POST("/api/executions/{execution_id}/analyze", { params: at(id) })),
  });

const COST_EVERY_MS = 5_000;

/** What an execution cost. All of its history is added up, so it is read again from time to time and not with each live change. */
export const costOf = ({ execution_id: id, ended_at }: Execution) =>
  queryOptions({
    queryKey: ["execution-cost", id, ended_at ?? null],
    refetchInterval: ended_at ? false : COST_EVERY_MS,
    placeholderData: keepPreviousData,
    queryFn: () => read(api.GET("/api/executions/{execution_id}/cost", { params: at(id) })),
  });

/** The same with all sub-executions, read when they are asked for: that may take a second. */
export const familyCostOf = (id: string) =>
  queryOptions({
    queryKey: ["execution-family-cost", id],
    queryFn: () =>
      read(api.GET("/api/executions/{execution_id}/cost", { params: { ...at(id), query: { family: true } } })),
  });

export const childrenOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "children"],
    queryFn: () => read(api.GET("/api/executions", { params: { query: { parent: id, limit: 50 } } })),
  });

export const callbacksOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "callbacks"],
    queryFn: () => read(api.GET("/api/executions/{execution_id}/callbacks", { params: at(id) })),
  });

export const variablesOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "variables"],
    queryFn: () => read(api.GET("/api/vars/{execution_id}", { params: at(id) })),
  });

export const resultOf = (id: string) =>
  queryOptions({
    queryKey: ["execution", id, "result"],
    queryFn: () =>
      read(api.GET("/api/executions/{execution_id}/result", { params: { ...at(id), query: { parts: true } } })),
  });

/** The input of an execution, which never changes. */
export const inputOf = (id: string) =>
  queryOptions({
    queryKey: ["execution-input", id],
    staleTime: Infinity,
    queryFn: async () =>
      (await read(api.POST("/api/context/render", { body: { execution_id: id, template: "{{ workload }}", strict: true } })))
        .rendered as Json,
  });

const ASKED_AT_ONCE = 5;

/** The version that an execution runs: the one whose list has it; the newest are asked first. */
async function versionOf(id: string, path: string, versions: number[]): Promise<number | undefined> {
  for (let from = 0; from < versions.length; from += ASKED_AT_ONCE) {
    const some = versions.slice(from, from + ASKED_AT_ONCE);
    const pages = await Promise.all(
      some.map((version) =>
        read(api.GET("/api/executions", { params: { query: { ids: id, path, version: String(version) } } })),
      ),
    );
    const found = pages.findIndex((page) => page.executions.length > 0);
    if (found >= 0) return some[found];
  }
  return undefined;
}

/** The text and version of the playbook as the execution runs it. */
export const codeOf = ({ execution_id: id, path, version: known }: Execution) =>
  queryOptions({
    // A redrive, also one of another tab, may go on with another version.
    queryKey: ["execution-code", id, known],
    staleTime: Infinity,
    queryFn: async ({ client }) => {
      if (typeof known === "number") return client.ensureQueryData(playbookText(path, known));
      const versions = await client.ensureQueryData(versionsOf(path));
      const version = await versionOf(
        id,
        path,
        versions.map((line) => line.version),
      );
      return client.ensureQueryData(playbookText(path, version));
    },
  });
