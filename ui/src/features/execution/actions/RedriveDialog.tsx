/** Run an ended execution again: from its failure, a step, or items of a loop; the server says first whether it can, and what runs. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, read, type Schemas } from "../../../api/client";
import { notify } from "../../../app/notices";
import { ActionButton, Button } from "../../../design/Button";
import { COPIES } from "../../../design/copies";
import { CopyAs } from "../../../design/CopyAs";
import { Failure } from "../../../design/Failure";
import { type Choice, SelectField, TextField } from "../../../design/Field";
import { Loaded } from "../../../design/Loaded";
import { Modal } from "../../../design/Modal";
import { versionsOf } from "../../playbooks/queries";
import { type Execution, type StepRun, stepsOf } from "../queries";
import { versionChoices } from "./versionChoices";

export function RedriveDialog({ execution, start = "failure", close }: { execution: Execution; start?: string; close: () => void }) {
  const id = execution.execution_id;
  const params = { path: { execution_id: id } };
  const [from, setFrom] = useState(start);
  const [version, setVersion] = useState("");
  const [reason, setReason] = useState("");
  const steps = useQuery(stepsOf(id));
  const versions = useQuery(versionsOf(execution.path));
  const chosen = version ? Number(version) : null;
  const preview = useQuery({
    queryKey: ["redrive-preview", id, from, version],
    queryFn: () => read(api.POST("/api/executions/{execution_id}/redrive", { params, body: { from, version: chosen, dry_run: true } })),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });
  const client = useQueryClient();
  const send = useMutation({
    mutationFn: () =>
      read(
        api.POST("/api/executions/{execution_id}/redrive", { params, body: { from, version: chosen, reason } }),
      ),
    onSuccess: () => {
      notify("The execution runs again.");
      void client.invalidateQueries({ queryKey: ["execution", id] });
      void client.invalidateQueries({ queryKey: ["execution-code", id] });
      close();
    },
  });
  const plan = preview.data && "begins" in preview.data ? preview.data : undefined;
  return (
    <Modal title="Redrive the execution" close={close}>
      <SelectField label="From" value={from} choices={placesOf(steps.data?.steps ?? [])} onChange={setFrom} />
      <p className="muted small">{meaningOf(from)}</p>
      <SelectField
        label="Version of the playbook"
        value={version}
        choices={versionChoices(execution.version ?? null, versions.data ?? [])}
        onChange={setVersion}
      />
      <TextField label="Reason" hint="Kept in the history." value={reason} onChange={setReason} />
      <Loaded query={preview} lines={2}>
        {() => (plan ? <Plan plan={plan} /> : null)}
      </Loaded>
      {send.error ? <Failure error={send.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <CopyAs of={() => COPIES.redrive(id, from, chosen, reason)} />
        <ActionButton
          scope="execute"
          look="main"
          disabled={plan === undefined || preview.isFetching || send.isPending}
          onPress={() => send.mutate()}
        >
          Redrive
        </ActionButton>
      </div>
    </Modal>
  );
}

const NAMED = 20;

/** What would run, by name. */
function Plan({ plan }: { plan: Schemas["RedrivePreview"] }) {
  return (
    <section className="stack" aria-label="What runs again">
      <h3>What runs again</h3>
      <ul>
        {plan.begins.map((one) => (
          <li key={`${one.step} ${one.action} ${one.items}`}>{wordsOfStep(one)}</li>
        ))}
      </ul>
      {plan.follows.length > 0 ? <p>Then, as the conditions decide: {listed(plan.follows)}.</p> : null}
      {plan.kept.length > 0 ? <p className="muted small">Stays as it is: {listed(plan.kept)}.</p> : null}
    </section>
  );
}

function listed(names: string[]): string {
  const more = names.length - NAMED;
  return names.slice(0, NAMED).join(", ") + (more > 0 ? `, and ${more} more` : "");
}

/** The failure, each step that ran, and the failed items of each loop. */
function placesOf(steps: StepRun[]): Choice[] {
  const choices: Choice[] = [{ value: "failure", label: "where it failed or was cancelled" }];
  const names = new Set(steps.map(({ step }) => step));
  const loops = new Set(steps.filter(({ loop }) => loop).map(({ step }) => step));
  for (const name of names) {
    choices.push({ value: name, label: `step ${name}` });
    if (loops.has(name)) choices.push({ value: `${name}[failed]`, label: `items of ${name} that failed or never ran` });
  }
  return choices;
}

export function wordsOfStep({ step, action, items, count }: Schemas["StepAgain"]): string {
  const times = count > 1 ? `, ${count} times` : "";
  if (action === "leave") return `${step} leaves with the given result${times}`;
  if (action === "join") return `${step} waits at its join again${times}`;
  if (items === null) return `${step} runs${times}`;
  if (items === "all") return `${step} runs, its loop from the beginning${times}`;
  if (items === "failed") return `${step} runs, items that failed or never ran${times}`;
  return `${step} runs, item ${items} and items that never ran${times}`;
}

function meaningOf(from: string): string {
  if (from === "failure") return "Runs again what was under way, with the arguments it had; of a loop only items that failed or never ran.";
  if (from.endsWith("[failed]")) return "Runs again the items that failed or never ran, then what follows.";
  return "Runs again this step, its loop from the beginning, then what follows.";
}
