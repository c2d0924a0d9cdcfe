/** The history, page by page; a row opens to its JSON, and its link leads back to it. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useCallback, useMemo, useState } from "react";

import { api, read } from "../../api/client";
import type { Json } from "../../api/json";
import { Button } from "../../design/Button";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { SelectField, TextField } from "../../design/Field";
import { JsonTree } from "../../design/JsonTree";
import { Moment } from "../../design/Moment";
import { Skeleton } from "../../design/Skeleton";
import { Status } from "../../design/Status";
import { VirtualList } from "../../design/VirtualList";
import type { TabProps } from "./ExecutionPage";
import type { HistoryEvent } from "./queries";
import { usePages } from "./usePages";

const PAGE = 200;
const LOOKS: Record<HistoryEvent["status"], string> = {
  error: "failed",
  in_progress: "running",
  skipped: "skipped",
  success: "done",
};

type Order = "oldest" | "newest";

export default function EventsTab({ execution }: TabProps) {
  const [order, setOrder] = useState<Order>("oldest");
  const [looks, setLooks] = useState(0);
  const ended = execution.ended_at !== null;
  const lookAgain = order === "newest" && !ended ? () => setLooks(looks + 1) : null;
  return (
    <Events key={`${order} ${looks}`} id={execution.execution_id} order={order} lookAgain={lookAgain}>
      <SelectField
        label="Order"
        value={order}
        choices={[
          { value: "oldest", label: "Oldest first" },
          { value: "newest", label: "Newest first" },
        ]}
        onChange={(value) => setOrder(value === "newest" ? "newest" : "oldest")}
      />
    </Events>
  );
}

interface EventsProps {
  id: string;
  order: Order;
  /** Reads the newest events again, where there may be newer ones. */
  lookAgain: (() => void) | null;
  /** What chooses the order. */
  children: ReactNode;
}

function Events({ id, order, lookAgain, children }: EventsProps) {
  const readPage = useCallback(
    async (after: string | undefined) => {
      const page = await read(
        api.GET("/api/executions/{execution_id}/events", {
          params: { path: { execution_id: id }, query: { after, limit: PAGE, order } },
        }),
      );
      return { items: page.events, next: page.next, complete: page.complete };
    },
    [id, order],
  );
  // What happens now belongs at the end of the oldest first; of the newest first another look has it.
  const events = usePages(order === "oldest" ? `execution:${id}` : "", PAGE, readPage);
  const [type, setType] = useState("");
  const [text, setText] = useState("");
  const types = useMemo(() => [...new Set(events.items.map((event) => event.event_type))].sort(), [events.items]);
  const shown = useMemo(() => events.items.filter((event) => fits(event, type, text)), [events.items, type, text]);
  if (events.items.length === 0) {
    const empty = events.next === undefined ? <Skeleton lines={10} /> : <Empty title="Nothing has happened yet." />;
    return (
      <div className="stack">
        <div className="filters">{children}</div>
        {events.error ? <Failure error={events.error} retry={() => void events.readOn()} /> : empty}
      </div>
    );
  }
  return (
    <div className="stack">
      <div className="filters">
        {children}
        <SelectField
          label="Type"
          value={type}
          choices={[{ value: "", label: "any" }, ...types.map((value) => ({ value, label: value }))]}
          onChange={setType}
        />
        <div className="filters-path">
          <TextField label="Step, task or entity" type="search" value={text} onChange={setText} />
        </div>
      </div>
      {shown.length === 0 ? (
        <Empty title="No event that was read fits the filter." />
      ) : (
        <VirtualList label="Events" items={shown} itemKey={(event) => event.event_id} estimate={33}>
          {(event) => <EventRow event={event} />}
        </VirtualList>
      )}
      {events.error ? <Failure error={events.error} /> : null}
      <div className="row spread">
        <span className="muted small" role="status">
          {shown.length} of {events.items.length} events read{events.complete ? ", all of them" : ""}
          {order === "newest" ? "; a loop in the graph or the timeline shows its items" : ""}
        </span>
        {lookAgain ? <Button onPress={lookAgain}>Look again</Button> : null}
        {events.complete ? null : (
          <Button onPress={() => void events.readOn()} disabled={events.reading}>
            Read on
          </Button>
        )}
      </div>
    </div>
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

function fits(event: HistoryEvent, type: string, text: string): boolean {
  if (type && event.event_type !== type) return false;
  const step = (event.meta as { step?: string }).step ?? "";
  return !text || `${event.entity_id} ${step}`.toLowerCase().includes(text.toLowerCase());
}
