/** What was typed and not registered yet: kept by this browser until it is registered or dropped. */
const DATABASE = "noetl-drafts";
const STORE = "drafts";

export interface Draft {
  text: string;
  /** The version that the draft began with. */
  version: number | null;
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("Drafts cannot be kept by this browser."));
  });
}

async function run<Result>(mode: IDBTransactionMode, ask: (store: IDBObjectStore) => IDBRequest<Result>): Promise<Result> {
  const database = await open();
  try {
    return await new Promise((resolve, reject) => {
      const request = ask(database.transaction(STORE, mode).objectStore(STORE));
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error ?? new Error("Drafts cannot be kept by this browser."));
    });
  } finally {
    database.close();
  }
}

export async function readDraft(name: string): Promise<Draft | null> {
  return ((await run("readonly", (store) => store.get(name))) as Draft | undefined) ?? null;
}

export async function keepDraft(name: string, draft: Draft): Promise<void> {
  await run("readwrite", (store) => store.put(draft, name));
}

export async function dropDraft(name: string): Promise<void> {
  await run("readwrite", (store) => store.delete(name));
}
