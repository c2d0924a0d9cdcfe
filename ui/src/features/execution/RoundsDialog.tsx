/** The rounds of an execution: when each began, from what, and the execution at that moment. */
import { Link } from "@tanstack/react-router";
import { useCallback } from "react";

import { api, read } from "../../api/client";
import { Button } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { Modal } from "../../design/Modal";
import { Moment } from "../../design/Moment";
import { Skeleton } from "../../design/Skeleton";
import { type Column, Table } from "../../design/Table";
import { durationText } from "../../design/time";
import type { TabProps } from "./ExecutionPage";
import { type Round, roundsOf } from "./rounds";
import { usePages } from "./usePages";

const PAGE = 50;
const REDRIVEN = "execution.redriven";

export function RoundsDialog({ execution, close }: TabProps & { close: () => void }) {
  const id = execution.execution_id;
  const readPage = useCallback(
    async (after: string | undefined) => {
      const query = { after, limit: PAGE, types: REDRIVEN };
      const page = await read(api.GET("/api/executions/{execution_id}/events", { params: { path: { execution_id: id }, query } }));
      const { scanned: count = 0, scanned_until: until = null, more = false } = page;
      return { items: page.events, next: page.next, complete: page.complete, scan: { count, until, more } };
    },
    [id],
  );
  const events = usePages(`execution:${id}`, PAGE, readPage);
  const first: Round = {
    number: 1,
    at: execution.started_at,
    from: "the start",
    by: execution.principal ?? "",
    reason: "",
    idleMs: 0,
    moment: undefined,
  };
  const columns: Column<Round>[] = [
    { title: "Round", cell: ({ number }) => number, numeric: true },
    { title: "Began", cell: ({ at, moment }) => <Began at={at} moment={moment} close={close} /> },
    { title: "From", cell: ({ from }) => from },
    { title: "After", cell: ({ number, idleMs }) => (number === 1 ? "" : durationText(idleMs)), numeric: true },
    { title: "By", cell: ({ by }) => by },
    { title: "Reason", cell: ({ reason }) => reason },
  ];
  return (
    <Modal title="Rounds" close={close} wide>
      <p className="muted small">
        A round begins with the start or with a redrive. Its moment opens the execution as it was when the round began; <i>After</i> is how long
        the execution was over before.
      </p>
      <Table label="Rounds" columns={columns} rows={[first, ...roundsOf(events.items)]} rowKey={({ number }) => String(number)} />
      {events.error ? <Failure error={events.error} retry={() => void events.readOn()} /> : null}
      {events.next === undefined && !events.error ? <Skeleton lines={execution.rounds ?? 1} /> : null}
      <div className="dialog-actions">
        <Link
          className="button"
          from="/executions/$id"
          search={(before) => ({ ...before, view: "events", type: REDRIVEN, step: undefined })}
          onClick={close}
        >
          Events of redrives
        </Link>
        {events.caughtUp || events.next === undefined ? null : (
          <Button onPress={() => void events.readOn()} disabled={events.reading}>
            {events.reading ? "Reading…" : "Read on"}
          </Button>
        )}
        <Button onPress={close}>Close</Button>
      </div>
    </Modal>
  );
}

function Began({ at, moment, close }: Pick<Round, "at" | "moment"> & { close: () => void }) {
  if (moment === undefined) return <Moment at={at} precise />;
  return (
    <Link from="/executions/$id" search={(before) => ({ ...before, view: "graph", at: moment })} onClick={close}>
      <Moment at={at} precise />
    </Link>
  );
}
