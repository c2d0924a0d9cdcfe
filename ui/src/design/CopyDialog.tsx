/** The commands and the link of a page, each with a button that copies it. */
import { serverRoot } from "../api/client";
import { Button } from "./Button";
import { copyText, shellWord } from "./clipboard";
import { Icon } from "./Icon";
import { Modal } from "./Modal";

export default function CopyDialog({ path, command, close }: { path: string; command?: string; close: () => void }) {
  const curl = `curl -H "Authorization: Bearer $(cat ~/.noetl/token)" ${shellWord(serverRoot + path)}`;
  return (
    <Modal title="Copy as" close={close}>
      <Part name="curl" text={curl} />
      {command ? <Part name="noetl" text={command} /> : null}
      <Part name="link" text={location.href} />
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
      </div>
    </Modal>
  );
}

function Part({ name, text }: { name: string; text: string }) {
  return (
    <section className="stack" aria-label={name}>
      <div className="row spread">
        <h3>{name}</h3>
        <Button label={`Copy ${name}`} onPress={() => void copyText(text, name)}>
          <Icon name="copy" />
          Copy
        </Button>
      </div>
      <pre className="sample">{text}</pre>
    </section>
  );
}
