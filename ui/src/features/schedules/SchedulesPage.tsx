import "./schedules.css";

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { notify } from "../../app/notices";
import { Page } from "../../app/Page";
import { ActionButton } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";
import { ExecutionLink } from "../execution/Header";
import { BackfillDialog } from "./BackfillDialog";
import { Calendar } from "./Calendar";
import { FireDialog } from "./FireDialog";
import { schedulesQuery, triggersQuery } from "./queries";
import { skippedLast } from "./skips";

type Schedule = Schemas["ScheduleView"];
type Trigger = Schemas["TriggerView"];

export default function SchedulesPage() {
  const { path } = useSearch({ from: "/shell/schedules" });
  const fits = (row: { path: string }) => path === undefined || row.path === path;
  const schedules = useQuery(schedulesQuery());
  const triggers = useQuery(triggersQuery());
  const [fired, setFired] = useState<Trigger | null>(null);
  const [backfilled, setBackfilled] = useState<string | null>(null);
  const client = useQueryClient();
  const steer = useMutation({
    mutationFn: (act: () => Promise<{ name: string }>) => act(),
    onSuccess: ({ name }) => {
      notify(`Changed ${name}.`);
      void client.invalidateQueries({ queryKey: ["schedules"] });
      void client.invalidateQueries({ queryKey: ["triggers"] });
    },
  });
  return (
    <Page
      title="Schedules"
      actions={<CopyAs of={() => COPIES.schedules((schedules.data ?? []).filter(fits), (triggers.data ?? []).filter(fits))} />}
    >
      {path === undefined ? null : (
        <p className="row">
          <span>
            Those of{" "}
            <Link to="/playbooks/$" params={{ _splat: path }} search={{ view: "relations" }}>
              {path}
            </Link>
            .
          </span>
          <Link to="/schedules">Show all</Link>
        </p>
      )}
      {steer.error ? <Failure error={steer.error} /> : null}
      <Loaded query={schedules}>
        {(all) => (
          <>
            <ScheduleTable rows={all.filter(fits)} one={path !== undefined} steer={steer.mutate} backfill={setBackfilled} />
            <Calendar schedules={all.filter(fits)} />
          </>
        )}
      </Loaded>
      <h2>Triggers</h2>
      <Loaded query={triggers}>{(all) => <TriggerTable rows={all.filter(fits)} one={path !== undefined} steer={steer.mutate} fire={setFired} />}</Loaded>
      {fired ? <FireDialog trigger={fired} close={() => setFired(null)} /> : null}
      {backfilled ? <BackfillDialog name={backfilled} close={() => setBackfilled(null)} /> : null}
    </Page>
  );
}

type Steer = (act: () => Promise<{ name: string }>) => void;

function ScheduleTable({ rows, one, steer, backfill }: { rows: Schedule[]; one: boolean; steer: Steer; backfill: (name: string) => void }) {
  if (rows.length === 0 && one) return <Empty title="This playbook has no schedule." />;
  if (rows.length === 0) {
    return (
      <Empty title="No playbook has a schedule.">
        <p>
          Write <code>schedule</code> in a playbook's metadata.
        </p>
      </Empty>
    );
  }
  return (
    <section className="card card-flush">
      <Table
        label="Schedules"
        rows={rows}
        rowKey={(row) => row.name}
        columns={[
          { title: "Schedule", cell: (row) => row.name },
          {
            title: "Playbook",
            cell: (row) => (
              <Link to="/playbooks/$" params={{ _splat: row.path }}>
                {row.path}
                {row.version === null ? "" : `@${row.version}`}
              </Link>
            ),
          },
          {
            title: "When",
            cell: (row) => (
              <>
                <span className="mono">{row.cron ?? row.rate}</span> <span className="muted small">{row.timezone}</span>
              </>
            ),
          },
          { title: "State", cell: (row) => <Status of={row.state} /> },
          { title: "Next", cell: (row) => <Moment at={row.next_at} /> },
          { title: "Last", cell: (row) => <LastMoment row={row} /> },
          { title: "Last skipped", cell: (row) => <Skips row={row} /> },
          {
            title: "Actions",
            cell: (row) => (
              <div className="row">
                <Toggle row={row} steer={steer} />
                <ActionButton scope="execute" label={`Backfill ${row.name}`} onPress={() => backfill(row.name)}>
                  Backfill…
                </ActionButton>
              </div>
            ),
          },
        ]}
      />
    </section>
  );
}

function LastMoment({ row }: { row: Schedule }) {
  const skip = skippedLast(row);
  if (skip === undefined) return <Last row={row} />;
  return (
    <span>
      <Status of={skip.cause === "refused" ? "refused" : "skipped"} /> <Moment at={skip.at} />
    </span>
  );
}

/** The newest moment that started nothing, and why, for each cause. */
function Skips({ row: { skips = [] } }: { row: Schedule }) {
  if (skips.length === 0) return <span className="muted">–</span>;
  return (
    <ul className="skips">
      {skips.map(({ cause, at, reason }) => (
        <li key={cause}>
          <Moment at={at} /> <span className="small">{reason}</span>
        </li>
      ))}
    </ul>
  );
}

function Last({ row }: { row: Schedule | Trigger }) {
  return (
    <span>
      {row.last_execution_id ? <ExecutionLink id={row.last_execution_id} /> : <Moment at={row.last_at} />}
      {row.last_error ? <span className="small"> {row.last_error}</span> : null}
    </span>
  );
}

function Toggle({ row: { name, state }, steer }: { row: Schedule; steer: Steer }) {
  const params = { path: { name } };
  return state === "paused" ? (
    <ActionButton
      scope="write"
      label={`Resume ${name}`}
      onPress={() => steer(() => read(api.POST("/api/schedules/{name}/resume", { params })))}
    >
      Resume
    </ActionButton>
  ) : (
    <ActionButton
      scope="write"
      label={`Pause ${name}`}
      onPress={() => steer(() => read(api.POST("/api/schedules/{name}/pause", { params })))}
    >
      Pause
    </ActionButton>
  );
}

function TriggerTable({ rows, one, steer, fire }: { rows: Trigger[]; one: boolean; steer: Steer; fire: (trigger: Trigger) => void }) {
  if (rows.length === 0 && one) return <Empty title="This playbook has no trigger." />;
  if (rows.length === 0) {
    return (
      <Empty title="No playbook starts by an event.">
        <p>
          Write <code>triggers</code> in a playbook's metadata.
        </p>
      </Empty>
    );
  }
  return (
    <section className="card card-flush">
      <Table
        label="Triggers"
        rows={rows}
        rowKey={(row) => row.name}
        columns={[
          { title: "Trigger", cell: (row) => row.name },
          { title: "Waits for", cell: (row) => waitsFor(row) },
          {
            title: "Playbook",
            cell: (row) => (
              <Link to="/playbooks/$" params={{ _splat: row.path }}>
                {row.path}
              </Link>
            ),
          },
          { title: "State", cell: (row) => <Status of={row.enabled ? "active" : "paused"} word={row.enabled ? "enabled" : "disabled"} /> },
          { title: "Fired", numeric: true, cell: (row) => row.fired },
          { title: "Failed", numeric: true, cell: (row) => row.failed },
          { title: "Last", cell: (row) => <Last row={row} /> },
          {
            title: "Actions",
            cell: (row) => (
              <div className="row">
                <TriggerToggle row={row} steer={steer} />
                <ActionButton scope="execute" label={`Fire ${row.name}`} disabled={!row.enabled} onPress={() => fire(row)}>
                  Fire…
                </ActionButton>
              </div>
            ),
          },
        ]}
      />
    </section>
  );
}

function TriggerToggle({ row: { name, enabled }, steer }: { row: Trigger; steer: Steer }) {
  const params = { path: { name } };
  const act = () =>
    enabled ? read(api.POST("/api/triggers/{name}/disable", { params })) : read(api.POST("/api/triggers/{name}/enable", { params }));
  return (
    <ActionButton scope="write" label={`${enabled ? "Disable" : "Enable"} ${name}`} onPress={() => steer(act)}>
      {enabled ? "Disable" : "Enable"}
    </ActionButton>
  );
}

/** What a trigger waits for, in a few words. */
function waitsFor({ type, source, hook }: Trigger): string {
  const { folder, pattern, bucket, prefix = "", suffix = "", queue } = source as Record<string, string | undefined>;
  if (type === "file") return `${pattern} in ${folder}`;
  if (type === "eventbridge") return "events that fit its pattern";
  if (bucket) return `objects ${bucket}/${prefix}*${suffix}`;
  if (queue) return `messages in ${queue}`;
  return hook ? "requests to its address" : type;
}
