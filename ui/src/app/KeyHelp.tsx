import { Button } from "../design/Button";
import { Modal } from "../design/Modal";
import { PAGES } from "./navigation";

const KEYS: [string, string][] = [
  ["Ctrl K", "Search and commands"],
  ["?", "This list"],
  ["j, k", "Next and previous row of a list"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["arrows", "Connected steps of a graph, and those beside"],
];

export default function KeyHelp({ close }: { close: () => void }) {
  const keys: [string, string][] = [...KEYS, ...PAGES.map(({ key, title }): [string, string] => [`g ${key}`, title])];
  return (
    <Modal title="Keys" close={close}>
      <table className="table">
        <tbody>
          {keys.map(([key, does]) => (
            <tr key={key}>
              <th scope="row">
                <kbd>{key}</kbd>
              </th>
              <td>{does}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
      </div>
    </Modal>
  );
}
