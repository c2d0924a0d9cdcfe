/** The rows of the list: pages that were read once, under a head and visible rows that follow the server. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";

import { api, read, type Schemas } from "../../api/client";
import { type ExecutionsSearch, listQuery } from "./search";

export type ExecutionRow = Schemas["ExecutionSummary"];

const PAGE = 100;
const MOST_IDS = 100;

function fetchPage(search: ExecutionsSearch, after: string | undefined) {
  const query = { ...listQuery(search, Date.now()), after, limit: PAGE };
  return read(api.GET("/api/executions", { params: { query } }));
}

export function useExecutions(search: ExecutionsSearch) {
  const client = useQueryClient();
  const olderKey = ["executions-read", search];
  const older = useInfiniteQuery({
    queryKey: olderKey,
    queryFn: ({ pageParam }) => fetchPage(search, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    staleTime: Infinity,
    gcTime: 0,
  });
  const first = older.data?.pages[0];
  const head = useQuery({
    queryKey: ["executions", "head", search],
    queryFn: () => fetchPage(search, undefined),
    enabled: first !== undefined,
    initialData: first,
    initialDataUpdatedAt: older.dataUpdatedAt,
  });
  const pagesRead = useMemo(() => older.data?.pages.flatMap((page) => page.executions) ?? [], [older.data]);
  const torn = head.data !== undefined && isTorn(head.data, pagesRead);
  useEffect(() => {
    // More has started than one page holds: the pages below no longer follow the head.
    if (torn) void client.resetQueries({ queryKey: ["executions-read", search] });
  }, [torn, client, search]);
  const rows = useMemo(() => (head.data ? mergeRows(head.data, pagesRead) : []), [head.data, pagesRead]);
  return { older, rows, error: older.error ?? head.error };
}

/** Rows that are on the screen, below the head, and not over yet: read by their ids when something changes. */
export function useFreshRows(rows: ExecutionRow[], shown: ExecutionRow[]): Map<string, ExecutionRow> {
  const headIds = new Set(rows.slice(0, PAGE).map((row) => row.execution_id));
  const ids = shown
    .filter((row) => row.ended_at === null && !headIds.has(row.execution_id))
    .map((row) => row.execution_id)
    .slice(0, MOST_IDS);
  const fresh = useQuery({
    queryKey: ["executions", "shown", ids.join(",")],
    queryFn: () => read(api.GET("/api/executions", { params: { query: { ids: ids.join(","), limit: MOST_IDS } } })),
    enabled: ids.length > 0,
  });
  return new Map((fresh.data?.executions ?? []).map((row) => [row.execution_id, row]));
}

/** The head's rows, then those below it; what the head no longer has fits the filter no longer. */
export function mergeRows(head: Schemas["ExecutionPage"], before: ExecutionRow[]): ExecutionRow[] {
  if (head.next === null) return head.executions;
  const known = new Set(head.executions.map((row) => row.execution_id));
  const below = before.slice(before.findLastIndex((row) => known.has(row.execution_id)) + 1);
  return [...head.executions, ...below];
}

/** Whether rows are missing between the head and what was read before. */
export function isTorn(head: Schemas["ExecutionPage"], before: ExecutionRow[]): boolean {
  if (head.next === null) return false;
  const known = new Set(head.executions.map((row) => row.execution_id));
  return !before.some((row) => known.has(row.execution_id));
}
