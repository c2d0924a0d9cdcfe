/** The value of a template that the pointer rests on, or that the cursor is at when Control+I is pressed. */
import { EditorState, StateEffect, StateField, type Text } from "@codemirror/state";
import { EditorView, hoverTooltip, keymap, showTooltip, type Tooltip } from "@codemirror/view";

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

const shown = StateEffect.define<Tooltip | null>();
const asked = StateField.define<Tooltip | null>({
  create: () => null,
  update: (before, transaction) => {
    for (const effect of transaction.effects) if (effect.is(shown)) return effect.value;
    return transaction.selection ? null : before;
  },
  provide: (field) => showTooltip.from(field),
});

export function templateValues(templateValue: ValueOf) {
  const tooltipAt = async (doc: Text, position: number): Promise<Tooltip | null> => {
    const place = templateAt(doc, position);
    if (!place) return null;
    const value = await templateValue(place.template);
    return { pos: place.from, end: place.to, above: true, create: () => ({ dom: boxOf(value) }) };
  };
  return [
    hoverTooltip((view, position) => tooltipAt(view.state.doc, position)),
    asked,
    // A cursor without editing: keys move it, and the text stays as it is.
    EditorState.readOnly.of(true),
    EditorView.editable.of(true),
    EditorView.contentAttributes.of({ "aria-readonly": "true" }),
    keymap.of([
      {
        key: "Mod-i",
        run: (view) => {
          void tooltipAt(view.state.doc, view.state.selection.main.head).then((tooltip) => view.dispatch({ effects: shown.of(tooltip) }));
          return true;
        },
      },
    ]),
  ];
}

function boxOf(value: string): HTMLElement {
  const box = document.createElement("div");
  box.className = "cm-value";
  box.setAttribute("role", "status");
  box.textContent = value;
  return box;
}
