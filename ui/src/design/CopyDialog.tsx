/** The commands and the link of a page, each with a button that copies it. */
import { useState } from "react";

import { serverRoot } from "../api/client";
import { Button } from "./Button";
import { copyText } from "./clipboard";
import { type Copyable, curlOf } from "./copies";
import { SelectField } from "./Field";
import { Icon } from "./Icon";
import { Modal } from "./Modal";

export default function CopyDialog({ copies, close }: { copies: Copyable[]; close: () => void }) {
  const [chosen, setChosen] = useState("0");
  const copy = copies[Number(chosen)];
  return (
    <Modal title="Copy as" close={close}>
      {copies.length > 1 ? (
        <SelectField
          label="What"
          value={chosen}
          choices={copies.map(({ what }, index) => ({ value: String(index), label: what }))}
          onChange={setChosen}
        />
      ) : null}
      {copy ? <Part name="curl" text={curlOf(copy, serverRoot)} /> : null}
      {copy?.command ? <Part name="noetl" text={copy.command} /> : null}
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
