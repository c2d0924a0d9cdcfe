/** Set an operator's limit: it wins over those of playbooks. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { notify } from "../../app/notices";
import { ActionButton, Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Failure } from "../../design/Failure";
import { TextField } from "../../design/Field";
import { Modal } from "../../design/Modal";

export function LimitDialog({ limit, close }: { limit: Schemas["LimitView"] | null; close: () => void }) {
  const [key, setKey] = useState(limit?.key ?? "");
  const [concurrent, setConcurrent] = useState(limit?.concurrent === null ? "" : String(limit?.concurrent ?? ""));
  const [rate, setRate] = useState(limit?.rate === null ? "" : String(limit?.rate ?? ""));
  const [per, setPer] = useState(String(limit?.per ?? 1));
  const [burst, setBurst] = useState(String(limit?.burst ?? 1));
  const numbers = {
    concurrent: concurrent ? Number(concurrent) : null,
    rate: rate ? Number(rate) : null,
    per: Number(per),
    burst: Number(burst),
  };
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () =>
      read(
        api.PUT("/api/limits/{key}", {
          params: { path: { key } },
          body: {
            concurrent: numbers.concurrent,
            ...(numbers.rate === null ? {} : { rate: numbers.rate, per: numbers.per, burst: numbers.burst }),
          },
        }),
      ),
    onSuccess: () => {
      notify(`The limit of ${key} is set.`);
      void client.invalidateQueries({ queryKey: ["limits"] });
      close();
    },
  });
  return (
    <Modal title={limit ? `Limit ${limit.key}` : "Set a limit"} close={close}>
      {limit ? null : <TextField label="Key" value={key} onChange={setKey} />}
      <TextField label="Run at the same time" type="number" hint="Empty: any number." value={concurrent} onChange={setConcurrent} />
      <TextField label="Begin" type="number" hint="Empty: at any rate." value={rate} onChange={setRate} />
      <TextField label="in so many seconds" type="number" value={per} onChange={setPer} />
      <TextField label="of them together" type="number" hint="1: spread evenly over the time." value={burst} onChange={setBurst} />
      {save.error ? <Failure error={save.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <CopyAs of={() => COPIES.limit(key, numbers)} disabled={key === ""} />
        <ActionButton scope="admin" look="main" disabled={key === "" || save.isPending} onPress={() => save.mutate()}>
          Set
        </ActionButton>
      </div>
    </Modal>
  );
}
