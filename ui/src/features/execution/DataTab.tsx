/** Input, variables, result; large values are references that are read on request. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";

import { type Schemas } from "../../api/client";
import type { Json } from "../../api/json";
import { READ_BYTES, readReference } from "../../api/references";
import { Button } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { TextField } from "../../design/Field";
import { JsonTree } from "../../design/JsonTree";
import { Loaded } from "../../design/Loaded";
import { sizeText } from "../../design/size";
import { Table } from "../../design/Table";
import type { TabProps } from "./ExecutionPage";
import { inputOf, type PastState, resultOf, variablesOf } from "./queries";
import { Rendered, renderTemplate } from "./StepResult";
import { usePast } from "./usePast";

export default function DataTab({ execution }: TabProps) {
  const { at, query } = usePast(execution.execution_id);
  if (at === undefined) return <DataNow execution={execution} />;
  return (
    <div className="stack">
      <Loaded query={query}>{(past) => <PastValues past={past} />}</Loaded>
      <Part title="Try a template">
        <TemplateBox executionId={execution.execution_id} at={query.data && String(query.data.at)} />
      </Part>
    </div>
  );
}

const SCOPES: Record<string, string> = {
  ctx: "Context",
  vars: "Variables of the playbook",
  step: "Results of steps",
  run: "Results of runs under way",
  args: "Arguments of runs under way",
  workload: "Input",
};

/** The values at the moment that is shown. */
function PastValues({ past }: { past: PastState }) {
  const scopes = [...new Set(past.values.map((value) => value.scope))];
  if (scopes.length === 0) return <p className="muted">There was no value yet.</p>;
  return (
    <>
      {scopes.map((scope) => (
        <Part key={scope} title={SCOPES[scope] ?? scope}>
          <Table
            label={SCOPES[scope] ?? scope}
            rows={past.values.filter((value) => value.scope === scope)}
            rowKey={(value) => value.name}
            columns={[
              { title: "Name", cell: (value) => <span className="mono">{value.name}</span> },
              {
                title: "Value",
                cell: (value) =>
                  value.omitted ? (
                    <span className="muted">{sizeText(value.bytes)}; a template reads it</span>
                  ) : (
                    <JsonTree label={`${scope} ${value.name}`} value={value.value as Json} />
                  ),
              },
            ]}
          />
        </Part>
      ))}
      {past.values_left_out > 0 ? <p className="muted small">{past.values_left_out} more values are not shown.</p> : null}
    </>
  );
}

function DataNow({ execution }: TabProps) {
  const id = execution.execution_id;
  const input = useQuery(inputOf(id));
  const variables = useQuery(variablesOf(id));
  const result = useQuery({ ...resultOf(id), enabled: execution.status === "completed" });
  return (
    <div className="stack">
      <Part title="Input">
        <Loaded query={input}>{(workload) => <JsonTree label="input" value={workload} />}</Loaded>
      </Part>
      <Part title="Result">
        {execution.status === "completed" ? (
          <Loaded query={result}>{(answer) => <Result answer={answer} />}</Loaded>
        ) : (
          <p className="muted">{execution.ended_at === null ? "It has not ended yet." : "It ended without a result."}</p>
        )}
      </Part>
      <Part title="Variables">
        <Loaded query={variables}>{(answer) => <Variables answer={answer} />}</Loaded>
      </Part>
      <Part title="Try a template">
        <TemplateBox executionId={id} />
      </Part>
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="card stack" aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function Result({ answer }: { answer: Schemas["ResultAnswer"] }) {
  return (
    <>
      <JsonTree label="result" value={answer.result as Json} />
      {answer.downloads.map((download) => (
        <Reference key={download.ref} download={download} />
      ))}
    </>
  );
}

/** A value that is kept beside the result: shown when asked for, where it is not too long to be shown. */
function Reference({ download }: { download: Schemas["Download"] }) {
  const load = useMutation({ mutationFn: () => readReference(download) });
  const isLong = (download.size ?? 0) > READ_BYTES;
  return (
    <div className="stack">
      <div className="row">
        <span className="mono small">{download.ref}</span>
        {download.size === null ? null : <span className="muted small">{sizeText(download.size)}</span>}
        {isLong ? null : (
          <Button onPress={() => load.mutate()} disabled={load.isPending}>
            Read it
          </Button>
        )}
        <a href={download.url} download={fileName(download)}>
          Download
        </a>
        {isLong ? <span className="muted small">Longer than {sizeText(READ_BYTES)}, so the page does not show it.</span> : null}
      </div>
      {load.error ? <Failure error={load.error} /> : null}
      {load.data === undefined ? null : <JsonTree label="value of the reference" value={load.data} />}
    </div>
  );
}

/** A name for the file: the last parts of the reference, with the ending of its compression. */
function fileName({ ref, compression }: Schemas["Download"]): string {
  const parts = ref.split("/result/").at(-1) ?? ref;
  return parts.replaceAll(/[^\w.-]+/g, "-") + (compression === "gzip" ? ".gz" : "");
}

function Variables({ answer }: { answer: Schemas["VariablesAnswer"] }) {
  const entries = Object.entries(answer.variables as Record<string, Schemas["VariableView"]>);
  if (entries.length === 0) return <p className="muted">No variable is set.</p>;
  return (
    <Table
      label="Variables"
      rows={entries}
      rowKey={([name]) => name}
      columns={[
        { title: "Name", cell: ([name]) => <span className="mono">{name}</span> },
        { title: "Value", cell: ([name, variable]) => <JsonTree label={`variable ${name}`} value={variable.value as Json} /> },
        { title: "Type", cell: ([, variable]) => variable.type.replace("_", " ") },
        { title: "Set by", cell: ([, variable]) => variable.source_step ?? "–" },
      ]}
    />
  );
}

function TemplateBox({ executionId, at }: { executionId: string; at?: string }) {
  const [template, setTemplate] = useState("{{ workload }}");
  const render = useMutation({ mutationFn: (asked: { template: string; at?: string }) => renderTemplate(executionId, asked.template, asked.at) });
  // A value of another moment would be read as one of this.
  const isOfMoment = render.variables?.at === at;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        render.mutate({ template, at });
      }}
    >
      <TextField
        label="Template"
        hint={`Rendered by the server against the execution as it ${at === undefined ? "is now" : `was after fact ${at}`}; nothing is changed.`}
        rows={2}
        value={template}
        onChange={setTemplate}
      />
      <div>
        <Button type="submit" disabled={render.isPending}>
          Render
        </Button>
      </div>
      {render.error && isOfMoment ? <Failure error={render.error} /> : null}
      {render.data && isOfMoment ? <Rendered label="rendered value" answer={render.data} /> : null}
    </form>
  );
}
