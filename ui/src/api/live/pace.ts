/** How long the page waits between two questions for changes, where it has no stream. */
export const POLL_MS = 1_000;
