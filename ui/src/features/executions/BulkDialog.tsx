/** A bulk action: the server says first what would happen to each execution, then it is done. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { notify } from "../../app/notices";
import { ActionButton, Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Failure } from "../../design/Failure";
import { TextField } from "../../design/Field";
import { Loaded } from "../../design/Loaded";
import { Modal } from "../../design/Modal";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";
import { type BulkAction, steer } from "./bulk";

const TITLES: Record<BulkAction, string> = { cancel: "Cancel", pause: "Pause", resume: "Resume", redrive: "Redrive" };
const MOST = 1_000;

export default function BulkDialog({
  action,
  filter,
  title,
  close,
  done,
}: {
  action: BulkAction;
  filter: Schemas["ManyFilter"];
  title: string;
  close: () => void;
  done: () => void;
}) {
  const [reason, setReason] = useState("");
  const preview = useQuery({
    queryKey: ["bulk", action, filter],
    queryFn: () => steer(action, { filter, limit: MOST, dry_run: true }),
    staleTime: 0,
    gcTime: 0,
  });
  const act = useMutation({
    // Those that were shown: more may fit the filter meanwhile.
    mutationFn: (ids: string[]) => steer(action, { filter: { ids }, limit: MOST, reason }),
    onSuccess: (answer) => {
      notify(`${TITLES[action]}: ${answer.done} done, ${answer.refused} refused.`);
      done();
    },
  });
  const meant = (preview.data?.executions ?? []).filter(({ outcome }) => outcome === "would").map(({ execution_id }) => execution_id);
  return (
    <Modal title={`${TITLES[action]}: ${title}`} close={close} wide>
      <Loaded query={preview}>{(answer) => <Preview answer={answer} />}</Loaded>
      <TextField label="Reason" hint="Kept in the history of each execution." value={reason} onChange={setReason} />
      {act.error ? <Failure error={act.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <CopyAs of={() => COPIES.many(action, { ...filter }, reason)} />
        <ActionButton
          scope="execute"
          look={action === "cancel" ? "risky" : "main"}
          disabled={meant.length === 0 || act.isPending}
          onPress={() => act.mutate(meant)}
        >
          {TITLES[action]} {meant.length}
        </ActionButton>
      </div>
    </Modal>
  );
}

function Preview({ answer }: { answer: Schemas["SteeredMany"] }) {
  if (answer.executions.length === 0) return <p>No execution fits.</p>;
  return (
    <div className="stack bulk-preview">
      {answer.more ? <p>Only the newest {MOST} are changed at once; repeat the action for the rest.</p> : null}
      <Table
        label="What would happen"
        rows={answer.executions}
        rowKey={(row) => row.execution_id}
        columns={[
          { title: "Execution", cell: (row) => <span className="mono">{row.execution_id}</span> },
          { title: "Playbook", cell: (row) => row.path },
          { title: "Status", cell: (row) => <Status of={row.status} /> },
          { title: "Outcome", cell: (row) => (row.outcome === "would" ? "will be changed" : `refused: ${row.detail ?? row.code ?? ""}`) },
        ]}
      />
    </div>
  );
}
