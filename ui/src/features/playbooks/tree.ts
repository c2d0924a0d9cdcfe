/** Playbooks as the folders of their paths. */
import type { PlaybookLine } from "./queries";

export interface Folder {
  name: string;
  path: string;
  folders: Folder[];
  playbooks: PlaybookLine[];
}

/** The folders of playbooks whose path has a text. */
export function treeOf(playbooks: PlaybookLine[], text = ""): Folder {
  const root: Folder = { name: "", path: "", folders: [], playbooks: [] };
  const wanted = playbooks.filter(({ path }) => path.toLowerCase().includes(text.toLowerCase()));
  for (const playbook of wanted.sort((a, b) => (a.path < b.path ? -1 : 1))) {
    const parts = playbook.path.split("/").slice(0, -1);
    parts.reduce(subfolder, root).playbooks.push(playbook);
  }
  return root;
}

function subfolder(folder: Folder, name: string): Folder {
  const found = folder.folders.find((each) => each.name === name);
  if (found) return found;
  const made = { name, path: folder.path ? `${folder.path}/${name}` : name, folders: [], playbooks: [] };
  folder.folders.push(made);
  return made;
}
