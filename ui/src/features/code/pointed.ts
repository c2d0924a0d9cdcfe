/** Something about a place of the text: where the pointer rests, or where the cursor is when Control+I is pressed. */
import { type EditorState, type Extension, StateEffect, StateField } from "@codemirror/state";
import { hoverTooltip, keymap, showTooltip, type Tooltip } from "@codemirror/view";

const shown = StateEffect.define<Tooltip | null>();
const asked = StateField.define<Tooltip | null>({
  create: () => null,
  update: (before, transaction) => {
    for (const effect of transaction.effects) if (effect.is(shown)) return effect.value;
    return transaction.selection || transaction.docChanged ? null : before;
  },
  provide: (field) => showTooltip.from(field),
});

export function pointed(tooltipAt: (state: EditorState, position: number) => Promise<Tooltip | null>): Extension {
  return [
    hoverTooltip((view, position) => tooltipAt(view.state, position)),
    asked,
    keymap.of([
      {
        key: "Mod-i",
        run: (view) => {
          const { state } = view;
          void tooltipAt(state, state.selection.main.head).then((tooltip) => {
            // The answer of a place that was left says nothing of this one.
            if (view.state.doc.eq(state.doc) && view.state.selection.eq(state.selection)) view.dispatch({ effects: shown.of(tooltip) });
          });
          return true;
        },
      },
    ]),
  ];
}
