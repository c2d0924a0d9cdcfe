/** Change the context of a running execution by a merge patch: what it is now, and what the patch makes of it, before it is sent. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, read } from "../../../api/client";
import { notify } from "../../../app/notices";
import { ActionButton, Button } from "../../../design/Button";
import { ChangeList } from "../../../design/ChangeList";
import { COPIES } from "../../../design/copies";
import { CopyAs } from "../../../design/CopyAs";
import { Failure } from "../../../design/Failure";
import { TextField } from "../../../design/Field";
import { JsonTree } from "../../../design/JsonTree";
import { Loaded } from "../../../design/Loaded";
import { Modal } from "../../../design/Modal";
import { readObject } from "../../forms/readObject";
import { contextNow } from "../queries";
import { changesOf, type Context, contextOf } from "./mergePatch";

export function PatchDialog({ executionId, close }: { executionId: string; close: () => void }) {
  const [text, setText] = useState("{\n  \n}");
  const [reason, setReason] = useState("");
  const client = useQueryClient();
  const now = useQuery(contextNow(executionId));
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
      <Loaded query={now} lines={2}>
        {(state) => <Now context={contextOf(state)} />}
      </Loaded>
      <TextField
        label="Merge patch (JSON)"
        hint="Names replace what the context has, null removes a name. Gates that wait are looked at again."
        wrong={patch.wrong}
        rows={6}
        value={text}
        onChange={setText}
      />
      {now.data && patch.value ? <Changes context={contextOf(now.data)} patch={patch.value} /> : null}
      <TextField label="Reason" hint="Kept in the history." value={reason} onChange={setReason} />
      {send.error ? <Failure error={send.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <CopyAs of={() => COPIES.patch(executionId, patch.value ?? {}, reason)} disabled={patch.wrong !== undefined} />
        <ActionButton scope="execute" look="main" disabled={patch.wrong !== undefined || send.isPending} onPress={() => send.mutate()}>
          Change
        </ActionButton>
      </div>
    </Modal>
  );
}

function Now({ context }: { context: Context }) {
  const { values, omitted, leftOut } = context;
  return (
    <section className="stack" aria-label="The context now">
      <h3>Now</h3>
      {Object.keys(values).length + omitted.length === 0 ? (
        <p className="muted">The context is empty.</p>
      ) : (
        <JsonTree label="context" value={values} />
      )}
      {omitted.length > 0 ? <p className="muted small">Too large to show here: {omitted.join(", ")}.</p> : null}
      {leftOut > 0 ? <p className="muted small">{leftOut} more values of the execution are not shown.</p> : null}
    </section>
  );
}

function Changes({ context, patch }: { context: Context; patch: NonNullable<ReturnType<typeof readObject>["value"]> }) {
  const changes = changesOf(context, patch);
  return (
    <section className="stack" aria-label="What changes">
      <h3>What changes</h3>
      {changes.length === 0 ? (
        <p className="muted">Nothing: the context is so already.</p>
      ) : (
        <ChangeList label="Changes of the context" changes={changes} />
      )}
    </section>
  );
}
