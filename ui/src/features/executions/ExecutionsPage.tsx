import "./executions.css";

import { Link, useSearch } from "@tanstack/react-router";
import { useCallback, useState } from "react";

import { Page } from "../../app/Page";
import { shellWord } from "../../design/clipboard";
import { COPIES, type Copyable } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { Skeleton } from "../../design/Skeleton";
import { BulkBar } from "./BulkBar";
import { ExecutionsTable } from "./ExecutionsTable";
import { Filters } from "./Filters";
import { type ExecutionsSearch, isFiltered, listQuery } from "./search";
import { useExecutions } from "./useExecutions";

export default function ExecutionsPage() {
  const search = useSearch({ from: "/shell/executions" });
  return (
    <Page title="Executions" actions={<CopyAs of={() => copies(search)} />}>
      <Filters search={search} />
      <List key={JSON.stringify(search)} search={search} />
    </Page>
  );
}

function List({ search }: { search: ExecutionsSearch }) {
  const { older, rows, error } = useExecutions(search);
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const toggle = useCallback((id: string) => {
    setIds((before) => {
      const after = new Set(before);
      if (!after.delete(id)) after.add(id);
      return after;
    });
  }, []);
  const toggleAll = () => setIds((before) => new Set(before.size < rows.length ? rows.map((row) => row.execution_id) : []));
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = older;
  const readOn = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const failure = error ? <Failure error={error} retry={() => void older.refetch()} /> : null;
  if (!older.data) return failure ?? <Skeleton lines={12} />;
  if (rows.length === 0) return <NothingListed filtered={isFiltered(search)} />;
  return (
    <>
      {failure}
      <ExecutionsTable rows={rows} selection={{ ids, toggle, toggleAll }} onEnd={readOn} />
      <p className="muted small" role="status">
        {rows.length} {rows.length === 1 ? "execution" : "executions"}
        {hasNextPage ? " loaded; older ones are read as you scroll" : ""}
      </p>
      <BulkBar ids={ids} search={search} done={() => setIds(new Set())} />
    </>
  );
}

function NothingListed({ filtered }: { filtered: boolean }) {
  if (filtered) {
    return (
      <Empty title="No execution fits the filter.">
        <Link to="/executions" search={{}}>
          Show all executions
        </Link>
      </Empty>
    );
  }
  return (
    <Empty title="Nothing has run yet.">
      <p>Start a playbook, or register one first.</p>
      <Link to="/playbooks" className="button">
        Playbooks
      </Link>
    </Empty>
  );
}

const FILTERS = {
  status: "status",
  path: "path",
  version: "version",
  parent: "parent",
  after: "started_after",
  before: "started_before",
  text: "text",
  error_code: "error_code",
  principal: "principal",
} as const;

/** An age stays an age in the command, which counts from the moment it runs. */
function copies(search: ExecutionsSearch): Copyable[] {
  const words = ["noetl", "list"];
  const filter = (text: string) => words.push("--filter", shellWord(text));
  for (const name of Object.keys(FILTERS) as (keyof typeof FILTERS)[]) {
    if (search[name] !== undefined) filter(`${FILTERS[name]}=${search[name]}`);
  }
  if (search.age && !search.after) filter(`started_after=${search.age}`);
  for (const label of (search.labels ?? "").split(",").filter(Boolean)) filter(`label=${label}`);
  const entries = Object.entries(listQuery(search, Date.now())).filter(([, value]) => value !== undefined);
  const query = new URLSearchParams(entries as [string, string][]);
  return COPIES.executions(`/api/executions${query.size > 0 ? `?${query}` : ""}`, words.join(" "));
}
