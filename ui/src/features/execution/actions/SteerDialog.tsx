/** Confirm a cancel, pause or resume: what it does, why it is done, whether children are meant too. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { notify } from "../../../app/notices";
import { ActionButton, Button } from "../../../design/Button";
import { Failure } from "../../../design/Failure";
import { Check, TextField } from "../../../design/Field";
import { Modal } from "../../../design/Modal";
import { childrenOf } from "../queries";

export function SteerDialog({
  title,
  says,
  verb,
  executionId,
  family,
  risky,
  close,
  act,
}: {
  title: string;
  says: string;
  verb: string;
  executionId: string;
  /** What is asked where it has children. */
  family: string;
  risky?: boolean;
  close: () => void;
  act: (body: { reason: string; cascade: boolean }) => Promise<{ execution_id: string }>;
}) {
  const [reason, setReason] = useState("");
  const [cascade, setCascade] = useState(true);
  const children = useQuery(childrenOf(executionId));
  const hasChildren = (children.data?.executions.length ?? 0) > 0;
  const client = useQueryClient();
  const send = useMutation({
    mutationFn: () => act({ reason, cascade }),
    onSuccess: ({ execution_id }) => {
      notify(`${title}: accepted.`);
      void client.invalidateQueries({ queryKey: ["execution", execution_id] });
      close();
    },
  });
  return (
    <Modal title={title} close={close}>
      <p>{says}</p>
      <TextField label="Reason" hint="Kept in the history." value={reason} onChange={setReason} />
      {hasChildren ? <Check label={family} value={cascade} onChange={setCascade} /> : null}
      {send.error ? <Failure error={send.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <ActionButton scope="execute" look={risky ? "risky" : "main"} disabled={send.isPending} onPress={() => send.mutate()}>
          {verb}
        </ActionButton>
      </div>
    </Modal>
  );
}
