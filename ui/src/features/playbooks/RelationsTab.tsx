/** What a playbook calls, what calls it, and what starts it by itself. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { Schemas } from "../../api/client";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";
import { relationsOf } from "./queries";

type Relations = Schemas["Relations"];
type Call = Schemas["CallView"];
type Caller = Schemas["CallerView"];

export default function RelationsTab({ path, version }: { path: string; version: number }) {
  const query = useQuery(relationsOf(path, version));
  return (
    <Loaded query={query} lines={8}>
      {(found) => (
        <div className="stack">
          <Calls found={found} />
          <Callers found={found} />
          <Starts found={found} />
        </div>
      )}
    </Loaded>
  );
}

function Panel({ title, nothing, empty, children }: { title: string; nothing: string; empty: boolean; children: ReactNode }) {
  return (
    <section className="card card-flush" aria-label={title}>
      <h2 className="relations-head">{title}</h2>
      {empty ? <p className="relations-note muted">{nothing}</p> : children}
    </section>
  );
}

function Calls({ found: { path, version, calls } }: { found: Relations }) {
  return (
    <Panel title="Calls" nothing="It calls no playbook." empty={calls.length === 0}>
      <Table
        label="Playbooks that it calls"
        rows={calls}
        rowKey={placeOf}
        columns={[
          { title: "Playbook", cell: (call) => <Called call={call} /> },
          { title: "Version", cell: ({ version: pinned }) => pinned ?? "latest" },
          { title: "Line", numeric: true, cell: ({ line }) => <LineLink path={path} version={version} line={line} /> },
        ]}
      />
    </Panel>
  );
}

function Called({ call: { path, version, computed, latest } }: { call: Call }) {
  if (computed) {
    return (
      <span className="wide">
        <code>{path}</code> <span className="muted small">Known when the task runs.</span>
      </span>
    );
  }
  if (latest === null) {
    return (
      <span className="row">
        <span>{path}</span> <Status of="warning" word="not registered" />
      </span>
    );
  }
  return (
    <span className="row">
      <Link to="/playbooks/$" params={{ _splat: path }} search={{ version: version ?? undefined, view: "relations" }}>
        {path}
      </Link>
      {version !== null && version > latest ? <Status of="warning" word={`the latest is ${latest}`} /> : null}
    </span>
  );
}

function Callers({ found: { callers, complete } }: { found: Relations }) {
  return (
    <Panel title="Called by" nothing="No playbook's latest version calls it." empty={callers.length === 0 && complete}>
      {callers.length > 0 ? (
        <Table
          label="Playbooks that call it"
          rows={callers}
          rowKey={(caller) => `${caller.path} ${placeOf(caller)}`}
          columns={[
            {
              title: "Playbook",
              cell: ({ path }) => (
                <Link to="/playbooks/$" params={{ _splat: path }} search={{ view: "relations" }}>
                  {path}
                </Link>
              ),
            },
            { title: "How", cell: (caller) => <How caller={caller} /> },
            { title: "Line", numeric: true, cell: ({ path, version, line }) => <LineLink path={path} version={version} line={line} /> },
          ]}
        />
      ) : null}
      {complete ? null : (
        <p className="relations-note muted small">
          There may be more: the server reads a hundred programs at a time, and passes over those that it cannot read.
        </p>
      )}
    </Panel>
  );
}

function How({ caller: { computed, called, called_version } }: { caller: Caller }) {
  if (!computed) return <span>by its path{called_version === null ? "" : `, version ${called_version}`}</span>;
  return (
    <span className="wide">
      perhaps, as <code>{called}</code>
    </span>
  );
}

function Starts({ found: { path, schedules, triggers, more_starts } }: { found: Relations }) {
  const rows = [
    ...schedules.map((one) => ({
      ...one,
      key: `schedule ${one.name}`,
      link: true,
      what: (
        <>
          <span className="mono">{one.cron ?? one.rate}</span> <span className="muted small">{one.timezone}</span>
        </>
      ),
      state: <Status of={one.state} />,
    })),
    ...triggers.map((one) => ({
      ...one,
      key: `trigger ${one.declared} ${one.name}`,
      link: !one.declared,
      what: one.declared ? `${one.type}, in a deployment` : one.type,
      state: <Status of={one.enabled ? "active" : "paused"} word={one.enabled ? "enabled" : "disabled"} />,
      next_at: null,
    })),
  ];
  return (
    <Panel title="Started by" nothing="Nothing starts it by itself." empty={rows.length === 0}>
      <Table
        label="Schedules and triggers"
        rows={rows}
        rowKey={({ key }) => key}
        columns={[
          {
            title: "Name",
            cell: ({ name, link }) =>
              link ? (
                <Link to="/schedules" search={{ path }}>
                  {name}
                </Link>
              ) : (
                name
              ),
          },
          { title: "When", cell: ({ what }) => <span>{what}</span> },
          { title: "Version", cell: ({ version }) => version ?? "latest" },
          { title: "State", cell: ({ state }) => state },
          { title: "Next", cell: ({ next_at }) => <Moment at={next_at} /> },
        ]}
      />
      {more_starts ? (
        <p className="relations-note muted small">
          There are more: see <Link to="/schedules">Schedules</Link>.
        </p>
      ) : null}
    </Panel>
  );
}

function LineLink({ path, version, line }: { path: string; version: number; line: number }) {
  return (
    <Link to="/playbooks/$" params={{ _splat: path }} search={{ version, line }} aria-label={`Line ${line} of ${path}`}>
      {line}
    </Link>
  );
}

function placeOf({ line, column }: { line: number; column: number }): string {
  return `${line}:${column}`;
}
