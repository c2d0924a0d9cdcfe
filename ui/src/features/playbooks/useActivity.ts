/** Activity of the playbooks on the screen: one request for all of them, and another only after a long way down the list. */
import { useQueries } from "@tanstack/react-query";
import { createContext, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";

import type { Activity, Days } from "./activity";
import { activityQuery } from "./queries";

/** Playbooks of one request. */
const MOST_PATHS = 200;
/** How far below the screen a line may be when its figures are asked for. */
const MARGIN = "600px";

interface Shown {
  /** The answer that counts a playbook; undefined while there is none. */
  answerOf: (path: string) => Activity | undefined;
  /** Ask for a playbook when its line comes to the screen. */
  watch: (path: string, line: HTMLElement) => () => void;
}

const nothing: Shown = { answerOf: () => undefined, watch: () => () => undefined };
export const ActivityContext = createContext<Shown>(nothing);

export function useActivity(allPaths: string[], days: Days) {
  const [seen, setSeen] = useState<ReadonlySet<number>>(new Set());
  const partOf = useMemo(() => new Map([...allPaths].sort().map((path, at) => [path, Math.floor(at / MOST_PATHS)])), [allPaths]);
  const parts = useMemo(() => {
    const paths = [...partOf.keys()];
    return Array.from({ length: Math.ceil(paths.length / MOST_PATHS) }, (_, at) => paths.slice(at * MOST_PATHS, (at + 1) * MOST_PATHS));
  }, [partOf]);
  const queries = useQueries({ queries: parts.map((paths, part) => ({ ...activityQuery(paths, days), enabled: seen.has(part) })) });

  const observer = useRef<IntersectionObserver>(null);
  const lines = useRef(new Map<Element, string>());
  const known = useRef(partOf);
  known.current = partOf;
  useEffect(() => () => observer.current?.disconnect(), []);
  const watch = useCallback((path: string, line: HTMLElement) => {
    observer.current ??= new IntersectionObserver(
      (entries) => {
        const found = entries.filter((entry) => entry.isIntersecting).map(({ target }) => known.current.get(lines.current.get(target) ?? "") ?? -1);
        setSeen((before) => (found.every((part) => before.has(part)) ? before : new Set([...before, ...found])));
      },
      { rootMargin: MARGIN },
    );
    lines.current.set(line, path);
    observer.current.observe(line);
    return () => {
      lines.current.delete(line);
      observer.current?.unobserve(line);
    };
  }, []);
  const answerOf = (path: string) => queries[partOf.get(path) ?? -1]?.data;
  const failed = queries.find(({ error }) => error !== null);
  const incomplete = queries.map(({ data }) => data?.complete_from).find((from) => typeof from === "string");
  return { shown: { answerOf, watch }, error: failed?.error ?? null, retry: () => void failed?.refetch(), incomplete };
}

/** The figures of a line, and the reference that its element takes. */
export function useLineActivity(path: string) {
  const { answerOf, watch } = useContext(ActivityContext);
  const line = useRef<HTMLLIElement>(null);
  useEffect(() => (line.current ? watch(path, line.current) : undefined), [path, watch]);
  return { line, answer: answerOf(path) };
}
