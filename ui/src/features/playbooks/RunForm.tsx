/** Start a playbook: a form of its input schema, or of its workload where it has none, or JSON. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { api, read } from "../../api/client";
import { type Json, printJson } from "../../api/json";
import { ActionButton } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Failure } from "../../design/Failure";
import { Check, TextField } from "../../design/Field";
import { Loaded } from "../../design/Loaded";
import { inputOf } from "../execution/queries";
import { readObject } from "../forms/readObject";
import { fieldsOf, type FormField, valueOf } from "../forms/schema";
import { SchemaForm } from "../forms/SchemaForm";
import { schemaOf } from "./queries";

export function RunForm({ path, version, like }: { path: string; version: number; like: string | undefined }) {
  const schema = useQuery(schemaOf(path, version));
  const input = useQuery({ ...inputOf(like ?? ""), enabled: like !== undefined });
  if (like !== undefined && input.data === undefined) return <Loaded query={input}>{() => null}</Loaded>;
  return (
    <Loaded query={schema}>
      {(answer) => <Form path={path} version={version} fields={fieldsOf(answer.schema, knownOf(input.data), knownOf(answer.workload as Json))} />}
    </Loaded>
  );
}

function knownOf(workload: Json | undefined): { [name: string]: Json } {
  return typeof workload === "object" && workload !== null && !Array.isArray(workload) ? workload : {};
}

function newKey(): string {
  return crypto.randomUUID();
}

function Form({ path, version, fields }: { path: string; version: number; fields: FormField[] }) {
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [json, setJson] = useState<string | null>(fields.length === 0 ? "{}" : null);
  // A payload that is sent twice starts one execution; another payload is another request.
  const [key, setKey] = useState(newKey);
  const change = (next: { texts?: Record<string, string>; json?: string | null }) => {
    setKey(newKey);
    if (next.texts) setTexts(next.texts);
    if (next.json !== undefined) setJson(next.json);
  };
  const navigate = useNavigate();
  const form = valueOf(fields, texts);
  const typed = json === null ? null : readObject(json);
  const payload = (typed ? typed.value : form.payload) ?? {};
  const start = useMutation({
    mutationFn: () =>
      read(
        api.POST("/api/executions", {
          params: { header: { "Idempotency-Key": key } },
          body: { path, version, payload },
        }),
      ),
    onSuccess: ({ execution_id }) => void navigate({ to: "/executions/$id", params: { id: execution_id } }),
  });
  const blocked = typed ? typed.wrong !== undefined : Object.keys(form.wrong).length > 0;
  return (
    <form
      className="card stack run-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!blocked) start.mutate();
      }}
    >
      {json === null ? (
        <SchemaForm
          fields={fields}
          texts={texts}
          wrong={form.wrong}
          onChange={(name, text) => change({ texts: { ...texts, [name]: text } })}
        />
      ) : (
        <TextField label="Payload (JSON)" hint="Laid over the playbook's workload." rows={10} wrong={typed?.wrong} value={json} onChange={(text) => change({ json: text })} />
      )}
      {fields.length > 0 ? (
        <Check
          label="Write the payload as JSON"
          value={json !== null}
          onChange={(asJson) => change({ json: asJson ? printJson(form.payload, 2) : null })}
        />
      ) : null}
      {start.error ? <Failure error={start.error} /> : null}
      <div className="row">
        <ActionButton scope="execute" look="main" type="submit" disabled={blocked || start.isPending}>
          Run version {version}
        </ActionButton>
        <CopyAs of={() => COPIES.start(path, version, payload)} disabled={blocked} />
      </div>
    </form>
  );
}
