/** Two texts as one, with what was removed and added; lines far from a change are folded unless all are asked for. */
import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useState } from "react";

import { Check } from "../../design/Field";
import { yamlView } from "./extensions";
import { useShadowView } from "./useShadowView";

export default function DiffView({ label, before, after }: { label: string; before: string; after: string }) {
  const [whole, setWhole] = useState(false);
  const { host } = useShadowView(`${before}\n---\n${after}\n---\n${whole}`, (parent, root) => {
    const state = EditorState.create({
      doc: after,
      extensions: [
        yamlView,
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        unifiedMergeView({ original: before, mergeControls: false, ...(whole ? {} : { collapseUnchanged: { margin: 4 } }) }),
      ],
    });
    return new EditorView({ state, parent, root });
  });
  return (
    <div className="stack">
      <div>
        <Check label="Show the lines that did not change" value={whole} onChange={setWhole} />
      </div>
      <div className="code-frame" ref={host} />
    </div>
  );
}
