/** The value of a template that the pointer rests on, or that the cursor is at when Control+I is pressed. */
import { EditorState, type Text } from "@codemirror/state";
import { EditorView, type Tooltip } from "@codemirror/view";

import { pointed } from "./pointed";

/** What a template is at this moment, as one text; or why it has no value. */
export type ValueOf = (template: string) => Promise<string>;

interface Place {
  from: number;
  to: number;
  template: string;
}

/** The template of a line that a position is in. */
export function templateAt(doc: Text, position: number): Place | null {
  const line = doc.lineAt(position);
  for (const found of line.text.matchAll(/\{\{.*?\}\}/g)) {
    const from = line.from + found.index;
    const to = from + found[0].length;
    if (position >= from && position <= to) return { from, to, template: found[0] };
  }
  return null;
}

export function templateValues(templateValue: ValueOf) {
  const tooltipAt = async (doc: Text, position: number): Promise<Tooltip | null> => {
    const place = templateAt(doc, position);
    if (!place) return null;
    const value = await templateValue(place.template);
    return { pos: place.from, end: place.to, above: true, create: () => ({ dom: boxOf(value) }) };
  };
  return [
    pointed(({ doc }, position) => tooltipAt(doc, position)),
    // A cursor without editing: keys move it, and the text stays as it is.
    EditorState.readOnly.of(true),
    EditorView.editable.of(true),
    EditorView.contentAttributes.of({ "aria-readonly": "true" }),
  ];
}

function boxOf(value: string): HTMLElement {
  const box = document.createElement("div");
  box.className = "cm-value";
  box.setAttribute("role", "status");
  box.textContent = value;
  return box;
}
