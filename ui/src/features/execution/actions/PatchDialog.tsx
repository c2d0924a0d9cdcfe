/** Change the context of a running execution by a merge patch. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, read } from "../../../api/client";
import { notify } from "../../../app/notices";
import { ActionButton, Button } from "../../../design/Button";
import { Failure } from "../../../design/Failure";
import { TextField } from "../../../design/Field";
import { Modal } from "../../../design/Modal";
import { readObject } from "../../forms/readObject";

export function PatchDialog({ executionId, close }: { executionId: string; close: () => void }) {
  const [text, setText] = useState("{\n  \n}");
  const [reason, setReason] = useState("");
  const client = useQueryClient();
  const patch = readObject(text);
  const send = useMutation({
    mutationFn: () =>
      read(
        api.PATCH("/api/executions/{execution_id}/ctx", {
          params: { path: { execution_id: executionId } },
          body: { patch: patch.value ?? {}, reason },
        }),
      ),
    onSuccess: () => {
      notify("The change was accepted.");
      void client.invalidateQueries({ queryKey: ["execution", executionId] });
      close();
    },
  });
  return (
    <Modal title="Change the context" close={close}>
      <TextField
        label="Merge patch (JSON)"
        hint="Names replace what the context has, null removes a name. Gates that wait are looked at again."
        wrong={patch.wrong}
        rows={8}
        value={text}
        onChange={setText}
      />
      <TextField label="Reason" hint="Kept in the history." value={reason} onChange={setReason} />
      {send.error ? <Failure error={send.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <ActionButton scope="execute" look="main" disabled={patch.wrong !== undefined || send.isPending} onPress={() => send.mutate()}>
          Change
        </ActionButton>
      </div>
    </Modal>
  );
}
