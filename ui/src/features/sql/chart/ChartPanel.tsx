/** The rows of a query as a chart, with its columns to choose; the table of the rows below says the same. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";

import type { Schemas } from "../../../api/client";
import { useZone } from "../../../app/preferences";
import { Bars } from "../../../design/charts/Bars";
import { MOST_SERIES } from "../../../design/charts/series";
import { Empty } from "../../../design/Empty";
import { Check, SelectField } from "../../../design/Field";
import { listed, NO_SPLIT, unlisted } from "../search";
import { type Chart, chartOf, type Chosen, chosenOf, type Column, columnsOf } from "./chartData";

const LineChart = lazy(() => import("../../../design/charts/LineChart"));

export function ChartPanel({ answer }: { answer: Schemas["SqlAnswer"] }) {
  const { x, y, by } = useSearch({ from: "/shell/sql" });
  const zone = useZone();
  const columns = useMemo(() => columnsOf(answer.columns), [answer]);
  const rows = answer.rows as unknown[][];
  const chosen = useMemo(
    () => chosenOf(columns, rows, { x, y: unlisted(y), by: by === NO_SPLIT ? "" : by }),
    [columns, rows, x, y, by],
  );
  const chart = useMemo(() => chosen && chartOf(rows, chosen, zone), [rows, chosen, zone]);
  return (
    <section className="card stack" aria-label="Chart">
      {chosen && chart ? (
        <>
          <Choices columns={columns} chosen={chosen} />
          <Drawn chart={chart} label={labelOf(chosen)} />
        </>
      ) : (
        <Empty title="These rows have no chart.">
          <p>
            A chart takes a column of numbers, and another one of times, numbers or texts to go along, such as{" "}
            <code>date_trunc('hour', started_at), count(*)</code>.
          </p>
        </Empty>
      )}
    </section>
  );
}

function Drawn({ chart, label }: { chart: Chart; label: string }) {
  if (chart.kind === "nothing") return <Empty title={chart.why} />;
  return (
    <>
      {chart.kind === "bars" ? (
        <Bars label={label} data={chart.data} />
      ) : (
        <Suspense fallback={<div className="chart-waits" role="status" aria-label="Loading" />}>
          <LineChart label={label} data={chart.data} />
        </Suspense>
      )}
      {chart.notes.map((note) => (
        <p key={note} className="small muted">
          {note}
        </p>
      ))}
    </>
  );
}

function Choices({ columns, chosen }: { columns: Column[]; chosen: Chosen }) {
  const navigate = useNavigate({ from: "/sql" });
  const change = (part: { x?: string; y?: string; by?: string }) =>
    void navigate({ search: (before) => ({ ...before, ...part }), replace: true, resetScroll: false });
  const choices = (wanted: Column[]) => wanted.map(({ key }) => ({ value: key, label: key }));
  const numbers = columns.filter((one) => one.role === "number" && one !== chosen.x);
  const texts = columns.filter((one) => one.role === "text" && one !== chosen.x);
  const shown = chosen.ys.map(({ key }) => key);
  return (
    <div className="filters">
      <SelectField
        label="Along"
        value={chosen.x.key}
        choices={choices(columns.filter(({ role }) => role !== "none"))}
        onChange={(x) => change({ x })}
      />
      {numbers.length > 1 ? (
        <fieldset className="chart-values">
          <legend>Values</legend>
          <div className="row">
            {numbers.map(({ key }) => (
              <Check
                key={key}
                label={key}
                value={shown.includes(key)}
                onChange={(wanted) => {
                  const next = numbers.map((one) => one.key).filter((one) => (one === key ? wanted : shown.includes(one)));
                  // A chart has a value at least, and no more series than are told apart.
                  if (next.length > 0 && next.length <= MOST_SERIES) change({ y: listed(next) });
                }}
              />
            ))}
          </div>
        </fieldset>
      ) : null}
      {texts.length > 0 ? (
        <SelectField
          label="Split by"
          value={chosen.by?.key ?? NO_SPLIT}
          choices={[{ value: NO_SPLIT, label: "nothing" }, ...choices(texts)]}
          onChange={(by) => change({ by })}
        />
      ) : null}
    </div>
  );
}

function labelOf({ x, ys, by }: Chosen): string {
  return `${ys.map(({ key }) => key).join(", ")} along ${x.key}${by ? `, by ${by.key}` : ""}`;
}
