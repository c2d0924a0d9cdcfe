/** The history, page by page; a row opens to its JSON, and its link leads back to it. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useState } from "react";

import { $defs as vocabularies } from "../../../../docs/event.schema.json";
import { api, read } from "../../api/client";
import type { Json } from "../../api/json";
import { Button } from "../../design/Button";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { SelectField } from "../../design/Field";
import { JsonTree } from "../../design/JsonTree";
import { Moment } from "../../design/Moment";
import { Skeleton } from "../../design/Skeleton";
import { Status } from "../../design/Status";
import { VirtualList } from "../../design/VirtualList";
import type { TabProps } from "./ExecutionPage";
import type { HistoryEvent } from "./queries";
import type { ORDERS } from "./search";
import { choicesOf, useStepNames } from "./stepChoices";
import { usePages } from "./usePages";

const PAGE = 200;
const LOOKS: Record<HistoryEvent["status"], string> = {
  error: "failed",
  in_progress: "running",
  skipped: "skipped",
  success: "done",
};

type Order = (typeof ORDERS)[number];

interface Filter {
  order?: Order;
  type?: string;
  step?: string;
}

const ORDER_CHOICES = [
  { value: "oldest", label: "Oldest first" },
  { value: "newest", label: "Newest first" },
];
const TYPES = [...vocabularies.stored.enum, "row.unreadable"];

export default function EventsTab({ execution }: TabProps) {
  const { order = "oldest", type, step } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const steps = useStepNames(execution.execution_id);
  const [looks, setLooks] = useState(0);
  const change = (part: Filter) =>
    void navigate({ search: (before) => ({ ...before, ...part }), replace: true, resetScroll: false });
  const lookAgain = order === "newest" && execution.ended_at === null ? () => setLooks(looks + 1) : null;
  return (
    <div className="stack">
      <search className="filters">
        <SelectField
          label="Order"
          value={order}
          choices={ORDER_CHOICES}
          onChange={(value) => change({ order: value === "newest" ? "newest" : undefined })}
        />
        <SelectField label="Type" value={type ?? ""} choices={choicesOf(TYPES, type)} onChange={(value) => change({ type: value || undefined })} />
        <SelectField label="Step" value={step ?? ""} choices={choicesOf(steps, step)} onChange={(value) => change({ step: value || undefined })} />
      </search>
      <Events key={JSON.stringify([order, type, step, looks])} id={execution.execution_id} order={order} type={type} step={step} lookAgain={lookAgain} />
    </div>
  );
}

interface EventsProps extends Filter {
  id: string;
  order: Order;
  /** Reads the newest events again, where there may be newer ones. */
  lookAgain: (() => void) | null;
}

function Events({ id, order, type, step, lookAgain }: EventsProps) {
  const readPage = useCallback(
    async (after: string | undefined) => {
      const page = await read(
        api.GET("/api/executions/{execution_id}/events", {
          params: { path: { execution_id: id }, query: { after, limit: PAGE, order, types: type, step } },
        }),
      );
      const { scanned: count = 0, scanned_until: until = null, more = false } = page;
      return { items: page.events, next: page.next, complete: page.complete, scan: { count, until, more } };
    },
    [id, order, type, step],
  );
  // What happens now belongs at the end of the oldest first; of the newest first another look has it.
  const events = usePages(order === "oldest" ? `execution:${id}` : "", PAGE, readPage);
  const filtered = type !== undefined || step !== undefined;
  if (events.items.length === 0) {
    if (events.error) return <Failure error={events.error} retry={() => void events.readOn()} />;
    if (events.next === undefined) return <Skeleton lines={10} />;
  }
  return (
    <>
      {events.items.length === 0 ? (
        <Empty title={emptyTitle(filtered, events.caughtUp)} />
      ) : (
        <VirtualList label="Events" items={events.items} itemKey={(event) => event.event_id} estimate={33}>
          {(event) => <EventRow event={event} />}
        </VirtualList>
      )}
      {events.error ? <Failure error={events.error} /> : null}
      <div className="row spread">
        <span className="muted small" role="status">
          {filtered ? <Scanned events={events} /> : `${events.items.length} events read${events.complete ? ", all of them" : ""}`}
          {order === "newest" ? "; a loop in the graph or the timeline shows its items" : ""}
        </span>
        {lookAgain ? <Button onPress={lookAgain}>Look again</Button> : null}
        {events.complete ? null : (
          <Button onPress={() => void events.readOn()} disabled={events.reading}>
            {events.reading ? "Reading…" : "Read on"}
          </Button>
        )}
      </div>
    </>
  );
}

function emptyTitle(filtered: boolean, caughtUp: boolean): string {
  if (!filtered) return "Nothing has happened yet.";
  return caughtUp ? "No event fits the filter." : "No event that was looked at fits the filter.";
}

/** How many events fit, and how far the server has looked for them. */
function Scanned({ events }: { events: { items: unknown[]; caughtUp: boolean; scannedUntil: string | null } }) {
  const fit = `${events.items.length} ${events.items.length === 1 ? "event fits" : "events fit"}`;
  if (events.caughtUp) return <>{fit} in the whole history</>;
  if (events.scannedUntil === null) return <>{fit}</>;
  return (
    <>
      {fit} until <Moment at={events.scannedUntil} precise />
    </>
  );
}

function EventRow({ event }: { event: HistoryEvent }) {
  const { event: picked } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const open = picked === event.event_id;
  const toggle = () =>
    void navigate({ search: (before) => ({ ...before, event: open ? undefined : event.event_id }), resetScroll: false });
  return (
    <div className="event" data-picked={open || undefined}>
      <button type="button" className="event-line" aria-expanded={open} onClick={toggle}>
        <Moment at={event.timestamp} precise />
        <span className="mono">{event.event_type}</span>
        <span>{event.entity_id}</span>
        <span className="muted">{itemOf(event)}</span>
        <Status of={LOOKS[event.status]} word={event.status.replace("_", " ")} />
      </button>
      {open ? (
        <div className="event-body stack">
          <EventMoment event={event} />
          <JsonTree label={`event ${event.event_id}`} value={event as unknown as Json} />
        </div>
      ) : null}
    </div>
  );
}

/** A link to the moment after an event; items of loops have none of their own. */
function EventMoment({ event }: { event: HistoryEvent }) {
  const { lane, seq } = event.meta as { lane?: number; seq?: number };
  if (lane !== 0 || seq === undefined) return null;
  const number = event.event_id.split(":").pop();
  return (
    <p>
      <Link from="/executions/$id" search={(before) => ({ ...before, view: "graph", at: `${seq}:${number}` })}>
        The execution at this moment
      </Link>
    </p>
  );
}

/** The run, and of a loop's event the item. */
function itemOf(event: HistoryEvent): string {
  const { run, loop_iteration_index: index } = event.meta as { run?: number; loop_iteration_index?: number };
  if (run === undefined) return "";
  return index === undefined ? `#${run}` : `#${run}[${index}]`;
}
