/** Two executions side by side: where they part first, and everything that differs. */
import "./compare.css";

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useState } from "react";

import type { Schemas } from "../../api/client";
import { Page } from "../../app/Page";
import { Button } from "../../design/Button";
import { ChangeList } from "../../design/ChangeList";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Facts } from "../../design/Facts";
import { Field } from "../../design/Field";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Note } from "../../design/Note";
import { Skeleton } from "../../design/Skeleton";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";
import { durationText } from "../../design/time";
import { ExecutionLink } from "../execution/Header";
import { playbookText } from "../playbooks/queries";
import { type AlignedRun, alikeOf, type Comparison, comparisonOf } from "./queries";

const DiffView = lazy(() => import("../code/DiffView"));

export default function ComparePage() {
  const { a, b } = useSearch({ from: "/shell/compare" });
  return (
    <Page
      title="Compare"
      actions={a && b ? <CopyAs of={() => COPIES.compare(a, b)} /> : null}
    >
      <Chooser key={`${a} ${b}`} a={a} b={b} />
      {a && b ? <Sides a={a} b={b} /> : <Unnamed />}
    </Page>
  );
}

function Unnamed() {
  return (
    <Empty title="Name two executions to see where they differ.">
      <p>
        Or select two in the <Link to="/executions">list of executions</Link> and press <em>Compare</em>.
      </p>
    </Empty>
  );
}

function Chooser({ a, b }: { a: string | undefined; b: string | undefined }) {
  const navigate = useNavigate({ from: "/compare" });
  const [left, setLeft] = useState(a ?? "");
  const [right, setRight] = useState(b ?? "");
  const alike = useQuery({ ...alikeOf(a ?? ""), enabled: a !== undefined });
  return (
    <form
      className="filters card compare-form"
      onSubmit={(event) => {
        event.preventDefault();
        void navigate({ search: { a: left.trim() || undefined, b: right.trim() || undefined } });
      }}
    >
      <IdField label="Execution a" value={left} onChange={setLeft} />
      <IdField label="Execution b" value={right} onChange={setRight} list="alike" />
      <datalist id="alike">
        {(alike.data ?? [])
          .filter(({ execution_id }) => execution_id !== a)
          .map(({ execution_id, status }) => (
            <option key={execution_id} value={execution_id} label={status} />
          ))}
      </datalist>
      <Button type="submit" look="main" disabled={!left.trim() || !right.trim()}>
        Compare
      </Button>
      <Button disabled={!left && !right} onPress={() => void navigate({ search: { a: right || undefined, b: left || undefined } })}>
        Swap
      </Button>
    </form>
  );
}

function IdField(props: { label: string; value: string; onChange: (value: string) => void; list?: string }) {
  return (
    <Field label={props.label}>
      {(wiring) => (
        <input
          {...wiring}
          className="input mono"
          inputMode="numeric"
          list={props.list}
          value={props.value}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

function Sides({ a, b }: { a: string; b: string }) {
  const query = useQuery(comparisonOf(a, b));
  return (
    <Loaded query={query} lines={10}>
      {(found) => <Found found={found} />}
    </Loaded>
  );
}

function Found({ found }: { found: Comparison }) {
  return (
    <>
      <div className="sides">
        <Side name="a" side={found.a} />
        <Side name="b" side={found.b} />
      </div>
      <Divergence found={found} />
      <Steps found={found} />
      <Values title="Input" changes={found.input} />
      <Values title="Context" changes={found.context} />
      <Values title="Result" changes={found.result} />
      <Texts found={found} />
    </>
  );
}

function Side({ name, side }: { name: string; side: Schemas["SideView"] }) {
  return (
    <section className="card stack" aria-label={`Execution ${name}`}>
      <div className="row">
        <h2>{name}</h2>
        <Status of={side.status} />
        <ExecutionLink id={side.execution_id} />
      </div>
      <Facts
        of={[
          [
            "Playbook",
            <Link key="playbook" to="/playbooks/$" params={{ _splat: side.path }} search={{ version: side.version ?? undefined }}>
              {side.path}
              {side.version === null ? "" : `@${side.version}`}
            </Link>,
          ],
          ["Started", <Moment key="started" at={side.started_at} />],
          ["Duration", durationText(side.duration_ms)],
          ["Error", side.error],
        ]}
      />
    </section>
  );
}

function Divergence({ found }: { found: Comparison }) {
  const first = found.divergence === null ? undefined : found.steps[found.divergence];
  if (!first) {
    return (
      <Note tone="good">
        <p>All step runs are alike: the same statuses, arguments, results and routes, apart from what always differs.</p>
      </Note>
    );
  }
  return (
    <Note tone="warn">
      <p>
        They part at {nameOf(first)}: {first.differs.map((part) => wordsOf(first, part)).join("; ")}.
      </p>
      {first.changes.length > 0 ? <ChangeList label="What differs there" changes={first.changes} /> : null}
    </Note>
  );
}

function nameOf(run: AlignedRun): string {
  return run.occurrence > 1 ? `step ${run.step}, run ${run.occurrence}` : `step ${run.step}`;
}

/** What differs in one respect, with both sides where they are short. */
function wordsOf({ a, b }: AlignedRun, part: AlignedRun["differs"][number]): string {
  if (part === "presence") return a ? "only a ran it" : "only b ran it";
  if (part === "status") return `a is ${a?.status}, b is ${b?.status}`;
  if (part === "route") return `a went to ${stepsOf(a)}, b to ${stepsOf(b)}`;
  return part === "arguments" ? "other arguments" : "another result";
}

function stepsOf(side: AlignedRun["a"]): string {
  return side && side.next.length > 0 ? side.next.join(", ") : "no step";
}

function Steps({ found }: { found: Comparison }) {
  const [all, setAll] = useState(false);
  const differing = found.steps.filter((run) => run.differs.length > 0).length;
  const rows = all ? found.steps : found.steps.filter((run) => run.differs.length > 0);
  return (
    <section className="card card-flush" aria-label="Steps side by side">
      <div className="row spread compare-head">
        <h2>
          Steps <span className="muted small">{`${differing} of ${found.steps.length} differ`}</span>
        </h2>
        <Button look="plain" pressed={all} onPress={() => setAll(!all)}>
          {all ? "Only what differs" : "Show all"}
        </Button>
      </div>
      {rows.length === 0 ? (
        <p className="muted compare-none">No step run differs.</p>
      ) : (
        <Table
          label="Step runs side by side"
          rows={rows}
          rowKey={(run) => `${run.step} ${run.occurrence}`}
          columns={[
            { title: "Step", cell: (run) => (run.occurrence > 1 ? `${run.step} ${run.occurrence}` : run.step) },
            { title: "a", cell: (run) => <RunSide side={run.a} /> },
            { title: "Time of a", numeric: true, cell: (run) => (run.a ? durationText(run.a.duration_ms) : "") },
            { title: "b", cell: (run) => <RunSide side={run.b} /> },
            { title: "Time of b", numeric: true, cell: (run) => (run.b ? durationText(run.b.duration_ms) : "") },
            { title: "Differs", cell: (run) => <Differs run={run} /> },
          ]}
        />
      )}
      {found.steps_left_out > 0 ? <p className="muted small compare-none">{found.steps_left_out} more are not shown.</p> : null}
    </section>
  );
}

function RunSide({ side }: { side: AlignedRun["a"] }): ReactNode {
  if (!side) return <span className="muted">did not run</span>;
  return <Status of={side.status} />;
}

function Differs({ run }: { run: AlignedRun }) {
  if (run.differs.length === 0 && run.changes.length === 0) return <span className="muted">alike</span>;
  const errors = [run.a?.error, run.b?.error].filter(Boolean);
  return (
    <div className="wide small">
      <p>{run.differs.map((part) => wordsOf(run, part)).join("; ") || "alike"}</p>
      {errors.map((error) => (
        <p key={error}>{error}</p>
      ))}
      {run.changes.length > 0 ? <ChangeList label={`Changes of ${nameOf(run)}`} changes={run.changes} /> : null}
    </div>
  );
}

function Values({ title, changes }: { title: string; changes: Schemas["ComparedChange"][] }) {
  return (
    <section className="card stack" aria-label={title}>
      <h2>{title}</h2>
      {changes.length === 0 ? <p className="muted">The same.</p> : <ChangeList label={`Differences of ${title}`} changes={changes} />}
    </section>
  );
}

function Texts({ found }: { found: Comparison }) {
  const { a, b } = found;
  const known = a.version !== null && b.version !== null && !found.same_program;
  const left = useQuery({ ...playbookText(a.path, a.version ?? undefined), enabled: known });
  const right = useQuery({ ...playbookText(b.path, b.version ?? undefined), enabled: known });
  return (
    <section className="card stack" aria-label="Playbook">
      <h2>Playbook</h2>
      {found.same_program ? (
        <p className="muted">Both run the same program.</p>
      ) : known ? (
        <Loaded query={left}>
          {(before) => (
            <Loaded query={right}>
              {(after) => (
                <Suspense fallback={<Skeleton lines={6} />}>
                  <DiffView label="Changes of the playbook from a to b" before={before.content} after={after.content} />
                </Suspense>
              )}
            </Loaded>
          )}
        </Loaded>
      ) : (
        <p className="muted">The catalog has no text of one of the two programs.</p>
      )}
    </section>
  );
}
