/** Read-only SQL over history: a query, its rows, queries that are kept, CSV. */
import "./sql.css";

import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { Page } from "../../app/Page";
import { useSavedViews } from "../../app/savedViews";
import { ActionButton, Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { Field, SelectField, TextField } from "../../design/Field";
import { Loaded } from "../../design/Loaded";
import { Note } from "../../design/Note";
import { saveFile } from "../../design/saveFile";
import { Table } from "../../design/Table";
import { columnsOf } from "./chart/chartData";
import { ChartPanel } from "./chart/ChartPanel";
import { csvOf, textOfCell } from "./csv";
import { type SqlSearch, sqlSearch } from "./search";

const FIRST = `SELECT path, status, count(*) AS executions, max(duration) AS longest
FROM executions
WHERE started_at > now() - interval '7 days'
GROUP BY path, status
ORDER BY executions DESC`;
const SHOWN = 500;
/** As many as the server answers. */
const MOST_ROWS = 10_000;

export default function SqlPage() {
  const search = useSearch({ from: "/shell/sql" });
  const navigate = useNavigate({ from: "/sql" });
  const [text, setText] = useState(search.q ?? FIRST);
  const views = useQuery({ queryKey: ["sql-views"], staleTime: Infinity, queryFn: () => read(api.GET("/api/sql")) });
  const run = useMutation({ mutationFn: (sql: string) => read(api.POST("/api/sql", { body: { sql, limit: MOST_ROWS } })) });
  const ask = () => {
    void navigate({ search: (before) => ({ ...before, q: text }), replace: true, resetScroll: false });
    run.mutate(text);
  };
  const pick = (kept: SqlSearch) => {
    setText(kept.q ?? "");
    void navigate({ search: kept, replace: true, resetScroll: false });
  };
  const toggleChart = () =>
    void navigate({ search: (before) => ({ ...before, view: before.view ? undefined : "chart" }), replace: true, resetScroll: false });
  return (
    <Page title="SQL" actions={<CopyAs of={() => COPIES.sql(text)} />}>
      {views.data && !views.data.available ? (
        <Note tone="warn">
          <p>This deployment has no role that reads history, so no query can run. NOETL_READER_URL names one.</p>
        </Note>
      ) : null}
      <section className="card stack" aria-label="Query">
        <Kept search={{ ...search, q: text }} pick={pick} />
        <Field label="Query" hint="One SELECT over the views below; it only reads. Ctrl and Enter runs it.">
          {(wiring) => (
            <textarea
              {...wiring}
              className="input"
              rows={8}
              spellCheck={false}
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
              }}
            />
          )}
        </Field>
        <div className="row">
          <ActionButton scope="read" look="main" disabled={run.isPending || text.trim() === ""} onPress={ask}>
            {run.isPending ? "Running…" : "Run"}
          </ActionButton>
          {run.data ? (
            <>
              <Button pressed={search.view === "chart"} onPress={toggleChart}>
                Chart
              </Button>
              <Download answer={run.data} />
            </>
          ) : null}
        </div>
      </section>
      {run.error ? <Failure error={run.error} /> : null}
      {run.data && !run.error && search.view === "chart" ? <ChartPanel answer={run.data} /> : null}
      {run.data && !run.error ? <Rows answer={run.data} /> : null}
      <Loaded query={views}>{(answer) => <Views views={answer.views} />}</Loaded>
    </Page>
  );
}

function Rows({ answer }: { answer: Schemas["SqlAnswer"] }) {
  const rows = answer.rows as unknown[][];
  const shown = rows.slice(0, SHOWN);
  const columns = useMemo(() => columnsOf(answer.columns), [answer]);
  return (
    <section className="card card-flush" aria-label="Rows">
      {rows.length === 0 ? (
        <Empty title="The query has no rows." />
      ) : (
        <Table
          label="Rows of the query"
          rows={shown}
          rowKey={(row) => String(shown.indexOf(row))}
          columns={columns.map(({ key, role, index }) => ({
            title: key,
            numeric: role === "number",
            cell: (row: unknown[]) => <Cell name={key} value={row[index]} />,
          }))}
        />
      )}
      <p className="muted small sql-count" role="status">
        {rows.length} {rows.length === 1 ? "row" : "rows"} in {answer.duration_ms} ms
        {answer.truncated ? "; there are more, which the limits leave out" : ""}
        {rows.length > SHOWN ? `; the first ${SHOWN} are shown, the CSV has all` : ""}
      </p>
    </section>
  );
}

function Cell({ name, value }: { name: string; value: unknown }) {
  if (value === null) return <span className="muted">null</span>;
  const text = textOfCell(value);
  if (name.endsWith("execution_id") && /^\d+$/.test(text)) {
    return (
      <Link className="mono" to="/executions/$id" params={{ id: text }}>
        {text}
      </Link>
    );
  }
  return <span className={typeof value === "object" ? "mono sql-cell" : "sql-cell"}>{text}</span>;
}

function Download({ answer }: { answer: Schemas["SqlAnswer"] }) {
  const save = () => {
    const text = csvOf(
      answer.columns.map(({ name }) => name),
      answer.rows as unknown[][],
    );
    saveFile("query.csv", text, "text/csv");
  };
  return <Button onPress={save}>Save as CSV</Button>;
}

/** Queries that the server keeps by name. */
function Kept({ search, pick }: { search: SqlSearch; pick: (kept: SqlSearch) => void }) {
  const saved = useSavedViews("sql");
  const [name, setName] = useState("");
  const wanted = name.trim();
  const current = saved.views.find((view) => view.search.q === search.q);
  return (
    <>
      <div className="filters">
        {saved.views.length > 0 ? (
          <SelectField
            label="Kept queries"
            value={current?.name ?? ""}
            choices={[{ value: "", label: "–" }, ...saved.views.map((view) => ({ value: view.name, label: view.name }))]}
            onChange={(value) => {
              setName(value);
              const view = saved.views.find((each) => each.name === value);
              if (view) pick(sqlSearch(view.search));
            }}
          />
        ) : null}
        <TextField label="Name" value={name} onChange={setName} />
        <ActionButton
          scope="execute"
          disabled={wanted === "" || !search.q?.trim() || saved.save.isPending}
          onPress={() => saved.save.mutate({ name: wanted, search: textsOf(search) })}
        >
          Keep
        </ActionButton>
        {saved.views.some((view) => view.name === wanted) ? (
          <ActionButton
            scope="execute"
            disabled={saved.remove.isPending}
            onPress={() => saved.remove.mutate(wanted, { onSuccess: () => setName("") })}
          >
            Remove
          </ActionButton>
        ) : null}
      </div>
      {saved.error ? <Failure error={saved.error} /> : null}
    </>
  );
}

function textsOf(search: SqlSearch): Record<string, string> {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined));
}

function Views({ views }: { views: Schemas["SqlView"][] }) {
  return (
    <section className="card stack" aria-label="Views">
      <h2>Views</h2>
      <dl className="sql-views">
        {views.map((view) => (
          <div key={view.name}>
            <dt className="mono">{view.name}</dt>
            <dd>
              {view.columns.map((column) => (
                <span key={column.name} title={column.type}>
                  <span className="mono">{column.name}</span>
                </span>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
