/** Asks before a token is removed: its users are refused at once. */
import { ActionButton, Button } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { Modal } from "../../design/Modal";

interface Props {
  name: string;
  busy: boolean;
  error: unknown;
  remove: () => void;
  close: () => void;
}

export function RemoveTokenDialog({ name, busy, error, remove, close }: Props) {
  return (
    <Modal title={`Remove the token ${name}`} close={close}>
      <p>Programs that use it and sessions that it began are refused from now on. Tokens that it made stay.</p>
      {error ? <Failure error={error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <ActionButton scope="admin" look="risky" disabled={busy} onPress={remove}>
          Remove
        </ActionButton>
      </div>
    </Modal>
  );
}
