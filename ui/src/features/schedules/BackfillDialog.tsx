/** Start moments of the past that a schedule missed: the server lists them first. */
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { ActionButton, Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Failure } from "../../design/Failure";
import { Check, TextField } from "../../design/Field";
import { Modal } from "../../design/Modal";
import { Moment } from "../../design/Moment";
import { Table } from "../../design/Table";
import { ExecutionLink } from "../execution/Header";

const MOST = 200;

export function BackfillDialog({ name, close }: { name: string; close: () => void }) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [onlyMissed, setOnlyMissed] = useState(true);
  const ask = (dry_run: boolean) =>
    read(
      api.POST("/api/schedules/{name}/backfill", {
        params: { path: { name } },
        body: { from: instant(from), to: instant(to), only_missed: onlyMissed, dry_run, limit: MOST },
      }),
    );
  const preview = useMutation({ mutationFn: () => ask(true) });
  const start = useMutation({
    mutationFn: () => ask(false),
  });
  const done = start.data;
  const complete = from !== "" && to !== "";
  const pending = preview.data?.moments.filter(({ status }) => status === "pending").length ?? 0;
  const changed = <Value,>(set: (value: Value) => void) => (value: Value) => {
    preview.reset();
    start.reset();
    set(value);
  };
  return (
    <Modal title={`Backfill ${name}`} close={close} wide>
      <div className="filters">
        <TextField label="From (this browser's zone)" type="datetime-local" value={from} onChange={changed(setFrom)} />
        <TextField label="To" type="datetime-local" value={to} onChange={changed(setTo)} />
      </div>
      <Check label="Only moments that were missed" value={onlyMissed} onChange={changed(setOnlyMissed)} />
      {done ? <Started name={name} answer={done} /> : preview.data ? <Moments answer={preview.data} /> : null}
      {preview.error ? <Failure error={preview.error} /> : null}
      {start.error ? <Failure error={start.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <CopyAs of={() => COPIES.backfill(name, instant(from), instant(to), onlyMissed, MOST)} disabled={!complete} />
        <Button disabled={!complete || preview.isPending} onPress={() => preview.mutate()}>
          Show what would start
        </Button>
        <ActionButton scope="execute" look="main" disabled={pending === 0 || start.isPending || done !== undefined} onPress={() => start.mutate()}>
          Start {pending}
        </ActionButton>
      </div>
    </Modal>
  );
}

/** What was started, with links: its executions are most often looked at next. */
function Started({ name, answer }: { name: string; answer: Schemas["Backfill"] }) {
  const count = answer.moments.filter(({ status }) => status === "started").length;
  return (
    <>
      <p role="status">
        {count === 1 ? "1 execution was started." : `${count} executions were started.`}{" "}
        <Link to="/executions" search={{ principal: name }}>
          Executions of {name}
        </Link>
      </p>
      <Moments answer={answer} />
    </>
  );
}

/** A moment that was typed in the browser's zone, as the API takes it. */
function instant(typed: string): string {
  return new Date(typed).toISOString();
}

function Moments({ answer }: { answer: Schemas["Backfill"] }) {
  if (answer.moments.length === 0) return <p>No moment is in this time.</p>;
  return (
    <div className="bulk-preview">
      <Table
        label="Moments"
        rows={answer.moments}
        rowKey={(moment) => moment.at}
        columns={[
          { title: "Moment", cell: (moment) => <Moment at={moment.at} /> },
          { title: "Outcome", cell: (moment) => (moment.status === "pending" ? "will be started" : (moment.error ?? moment.status)) },
          { title: "Execution", cell: (moment) => (moment.execution_id ? <ExecutionLink id={moment.execution_id} /> : null) },
        ]}
      />
    </div>
  );
}
