/** A box of help beside the text: everything in it is text, also the names of a playbook. */

interface Help {
  title: string;
  text?: string;
  more?: string;
  /** A page of the documentation, as `noetl docs` takes it. */
  docs?: string;
}

export function helpBox({ title, text, more, docs }: Help): HTMLElement {
  const box = document.createElement("div");
  box.className = "cm-help";
  const add = (tag: string, content: string | undefined) => {
    if (!content) return;
    const part = document.createElement(tag);
    part.textContent = content;
    box.append(part);
  };
  add("strong", title);
  add("p", text);
  add("p", more);
  if (docs) box.append(docsLine(docs));
  return box;
}

export function docsLine(page: string): HTMLElement {
  const line = document.createElement("p");
  line.className = "cm-help-docs";
  const command = document.createElement("code");
  command.textContent = `noetl docs ${page}`;
  line.append("More: ", command);
  return line;
}
