/** Make a token; its text is shown here, this once. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, read } from "../../api/client";
import { useSession } from "../../app/SessionContext";
import { ActionButton, Button } from "../../design/Button";
import { copyText } from "../../design/clipboard";
import { Failure } from "../../design/Failure";
import { Check, SelectField, TextField } from "../../design/Field";
import { Modal } from "../../design/Modal";
import { Moment } from "../../design/Moment";

const DAY = 86_400;
const VALIDITIES = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "a year" },
];

export function TokenDialog({ close }: { close: () => void }) {
  const session = useSession();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read"]);
  const [days, setDays] = useState("90");
  const make = useMutation({
    mutationFn: () => read(api.POST("/api/tokens", { body: { name, scopes, expires_in: Number(days) * DAY } })),
    // The text of the token is nothing to keep for a component that comes later.
    gcTime: 0,
    onSuccess: () => void client.invalidateQueries({ queryKey: ["tokens"] }),
  });
  if (make.data) {
    const { token, expires_at } = make.data;
    return (
      <Modal title={`The token ${make.data.name}`} close={close}>
        <p>Store this token now: it is not shown again.</p>
        <p className="mono" data-testid="token">
          {token}
        </p>
        <p className="muted">
          It is valid until <Moment at={expires_at} />.
        </p>
        <div className="dialog-actions">
          <Button onPress={close}>Close</Button>
          <Button look="main" onPress={() => void copyText(token, "the token")}>
            Copy
          </Button>
        </div>
      </Modal>
    );
  }
  const toggle = (scope: string, wanted: boolean) =>
    setScopes((before) => (wanted ? [...before, scope] : before.filter((one) => one !== scope)));
  return (
    <Modal title="Make a token" close={close}>
      <TextField label="Name" hint="Whose it is; recorded with every change." value={name} onChange={setName} />
      <fieldset className="stack">
        <legend>Scopes</legend>
        {session.scopes.map((scope) => (
          <Check key={scope} label={scope} value={scopes.includes(scope)} onChange={(wanted) => toggle(scope, wanted)} />
        ))}
      </fieldset>
      <SelectField label="Valid for" value={days} choices={VALIDITIES} onChange={setDays} />
      {make.error ? <Failure error={make.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <ActionButton scope="admin" look="main" disabled={name === "" || scopes.length === 0 || make.isPending} onPress={() => make.mutate()}>
          Make
        </ActionButton>
      </div>
    </Modal>
  );
}
