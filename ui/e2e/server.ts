/** A real `noetl serve` on a free port with a home of its own, and what tests ask of it beside the pages. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const OF_CHECKOUT = fileURLToPath(new URL("../../.venv/bin/noetl", import.meta.url));
export const NOETL = process.env.NOETL ?? (existsSync(OF_CHECKOUT) ? OF_CHECKOUT : "noetl");

/** The unit of /proc. */
const TICK_MS = 10;

export interface Started {
  execution_id: string;
  status: string;
}

interface Serving {
  process: ChildProcess;
  address: string;
}

/** Start the program in a home, and wait until it says where it serves. */
async function serve(home: string, port: string): Promise<Serving> {
  const process = spawn(NOETL, ["serve", "--port", port], {
    env: { ...globalThis.process.env, NOETL_HOME: home },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const address = await new Promise<string>((resolve, reject) => {
    let text = "";
    const look = (chunk: Buffer) => {
      text += chunk.toString();
      const found = /serving at (http:\/\/\S+?);/.exec(text)?.[1];
      if (found) resolve(found);
    };
    process.stdout.on("data", look);
    process.stderr.on("data", look);
    process.on("exit", () => reject(new Error(`noetl serve ended: ${text}`)));
  });
  return { process, address };
}

export class Server {
  private constructor(
    private process: ChildProcess,
    readonly home: string,
    readonly address: string,
    readonly token: string,
  ) {}

  static async start(): Promise<Server> {
    const home = await mkdtemp(join(tmpdir(), "noetl-ui-"));
    const { process, address } = await serve(home, "0");
    const token = (await readFile(join(home, "token"), "utf8")).trim();
    return new Server(process, home, address, token);
  }

  /** End the program as a machine that loses its power does. */
  async kill(): Promise<void> {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }

  /** Start it again after `kill`, at its address. */
  async again(): Promise<void> {
    this.process = (await serve(this.home, new URL(this.address).port)).process;
  }

  /** Ask the API; throws what it refuses. */
  async ask<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await fetch(this.address + path, {
      method,
      headers: {
        Authorization: `Bearer ${this.token}`,
        "Content-Type": typeof body === "string" ? "application/yaml" : "application/json",
      },
      body: typeof body === "string" ? body : body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text) as Answer;
  }

  /** Run a command of `noetl` beside the server, and return what it prints. */
  async command(...words: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(NOETL, words, {
      env: { ...globalThis.process.env, NOETL_HOME: this.home },
    });
    return stdout;
  }

  register(playbook: string): Promise<{ path: string; version: number }> {
    return this.ask("POST", "/api/catalog/register", playbook);
  }

  /** Start an execution; wait until it ends, or for as long as asked. */
  run(path: string, payload: Record<string, unknown> = {}, wait = 20): Promise<Started> {
    return this.ask("POST", wait > 0 ? `/api/executions?wait=${wait}` : "/api/executions", { path, payload });
  }

  /** Ask again until the execution has this status. */
  async until(executionId: string, wanted: string): Promise<void> {
    for (;;) {
      const { status } = await this.ask<Started>("GET", `/api/executions/${executionId}/status`);
      if (status === wanted) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Milliseconds of processor time that the program has taken so far; other than a clock it does not count what runs beside it. */
  async processorMs(): Promise<number> {
    const fields = (await readFile(`/proc/${this.process.pid}/stat`, "utf8")).split(") ").at(-1)?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
    await rm(this.home, { recursive: true, force: true });
  }
}
