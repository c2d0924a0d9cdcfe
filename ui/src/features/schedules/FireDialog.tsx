/** Fire a trigger by hand: what is typed is the body of the event. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { ActionButton, Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Failure } from "../../design/Failure";
import { TextField } from "../../design/Field";
import { Modal } from "../../design/Modal";
import { readObject } from "../forms/readObject";

export function FireDialog({ trigger: { name, path }, close }: { trigger: Schemas["TriggerView"]; close: () => void }) {
  const [text, setText] = useState("{}");
  // A press that is sent twice starts one execution; another body is another event.
  const [key, setKey] = useState(() => crypto.randomUUID());
  const client = useQueryClient();
  const navigate = useNavigate();
  const body = readObject(text);
  const fire = useMutation({
    mutationFn: () =>
      read(
        api.POST("/api/triggers/{name}/fire", {
          params: { path: { name } },
          headers: { "Idempotency-Key": key },
          body: body.value ?? {},
        }),
      ),
    onSuccess: ({ execution_id }) => {
      void client.invalidateQueries({ queryKey: ["triggers"] });
      void navigate({ to: "/executions/$id", params: { id: execution_id } });
    },
  });
  return (
    <Modal title={`Fire ${name}`} close={close}>
      <p>This starts {path}, as an event would.</p>
      <TextField
        label="Body of the event (JSON)"
        hint="Templates of the trigger read it as event.body."
        wrong={body.wrong}
        rows={8}
        value={text}
        onChange={(next) => {
          setText(next);
          setKey(crypto.randomUUID());
        }}
      />
      {fire.error ? <Failure error={fire.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <CopyAs of={() => COPIES.fire(name, body.value ?? {})} disabled={body.wrong !== undefined} />
        <ActionButton scope="execute" look="main" disabled={body.wrong !== undefined || fire.isPending} onPress={() => fire.mutate()}>
          Fire
        </ActionButton>
      </div>
    </Modal>
  );
}
