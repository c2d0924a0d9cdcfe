/** What the API says about playbooks. A version never changes, so it is read once. */
import { queryOptions } from "@tanstack/react-query";

import { api, read, type Schemas } from "../../api/client";
import { type Learned, learnedOf } from "../code/assist/learned";
import type { Schema } from "../code/assist/schema";
import { type Days, spanOf } from "./activity";

export type PlaybookLine = Schemas["PlaybookLine"];

const PAGE = 500;
const MOST_PAGES = 20;
const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/** The latest version of every playbook. */
export const playbookPages = () =>
  queryOptions({
    queryKey: ["catalog"],
    queryFn: async () => {
      const found: PlaybookLine[] = [];
      let after: string | undefined;
      for (let page = 0; page < MOST_PAGES; page++) {
        const answer = await read(api.GET("/api/catalog", { params: { query: { after, limit: PAGE } } }));
        found.push(...answer.playbooks);
        if (!answer.next) break;
        after = answer.next;
      }
      return found;
    },
  });

/** What may be written in a playbook, for the editor; it is that of one version of the server. */
export const playbookSchema = queryOptions({
  queryKey: ["playbook-schema"],
  queryFn: async () => (await read(api.GET("/api/schema/playbook"))) as Schema,
  staleTime: Infinity,
});

/** The versions of a playbook, newest first; the newest 500. */
export const versionsOf = (path: string) =>
  queryOptions({
    queryKey: ["versions", path],
    queryFn: async () =>
      (await read(api.GET("/api/catalog/{path}/versions", { params: { path: { path }, query: { limit: PAGE } } }))).playbooks,
  });

const versionQuery = (version: number | undefined) => (version === undefined ? {} : { version: String(version) });
const keepFor = (version: number | undefined) => (version === undefined ? 5_000 : Infinity);

/** A playbook with its text: a version, or the latest. */
export const playbookText = (path: string, version: number | undefined) =>
  queryOptions({
    queryKey: ["playbook", path, version ?? "latest"],
    staleTime: keepFor(version),
    queryFn: () => read(api.GET("/api/catalog/{path}", { params: { path: { path }, query: versionQuery(version) } })),
  });

export const graphOf = (path: string, version: number | undefined) =>
  queryOptions({
    queryKey: ["graph", path, version ?? "latest"],
    staleTime: keepFor(version),
    queryFn: () => read(api.GET("/api/catalog/{path}/graph", { params: { path: { path }, query: versionQuery(version) } })),
  });

/** Entries of the results of the last execution, and of the last that completed: one that failed early has few. */
export const learnedFrom = (path: string) =>
  queryOptions({
    queryKey: ["learned", path],
    staleTime: MINUTE_MS,
    retry: false,
    queryFn: async (): Promise<Learned> => {
      const newest = async (status?: "completed") =>
        (await read(api.GET("/api/executions", { params: { query: { path, status, limit: 1 } } }))).executions[0]?.execution_id;
      const ids = new Set((await Promise.all([newest(), newest("completed")])).filter((id) => id !== undefined));
      const entries = [...ids].map((execution_id) =>
        read(api.GET("/api/executions/{execution_id}/entries", { params: { path: { execution_id } } })),
      );
      return learnedOf(await Promise.all(entries));
    },
  });

export const schemaOf = (path: string, version: number | undefined) =>
  queryOptions({
    queryKey: ["schema", path, version ?? "latest"],
    staleTime: keepFor(version),
    queryFn: () => read(api.GET("/api/catalog/{path}/schema", { params: { path: { path }, query: versionQuery(version) } })),
  });

/** Callers and starts change when other playbooks do, also those of a version that is settled. */
export const relationsOf = (path: string, version: number) =>
  queryOptions({
    queryKey: ["relations", path, version],
    queryFn: () => read(api.GET("/api/catalog/{path}/relations", { params: { path: { path }, query: versionQuery(version) } })),
  });

/**
 * Endings of playbooks, all in one request; its answer has those that ended. It is asked again each minute and not at each change of the
 * list of executions: a day has many changes, and its bars are hours.
 */
export const activityQuery = (paths: string[], days: Days) =>
  queryOptions({
    queryKey: ["activity", days, paths],
    queryFn: () => {
      const { bucket } = spanOf(days);
      const ended_after = new Date(Date.now() - days * DAY_MS).toISOString();
      return read(api.POST("/api/executions/activity", { params: { query: { bucket, ended_after } }, body: { paths } }));
    },
    staleTime: MINUTE_MS,
    refetchInterval: MINUTE_MS,
  });
