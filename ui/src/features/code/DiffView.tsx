/** Two texts as one, with what was removed and added. */
import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";

import { yamlView } from "./extensions";
import { useShadowView } from "./useShadowView";

export default function DiffView({ label, before, after }: { label: string; before: string; after: string }) {
  const { host } = useShadowView(`${before}\n---\n${after}`, (parent, root) => {
    const state = EditorState.create({
      doc: after,
      extensions: [
        yamlView,
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged: { margin: 4 } }),
      ],
    });
    return new EditorView({ state, parent, root });
  });
  return <div className="code-frame" ref={host} />;
}
